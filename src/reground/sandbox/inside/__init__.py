"""What runs inside a sandbox: the program's side, the tests' side, and the wire between them.

These modules are shown to the sandbox as a package of their own and import the standard library alone, and little of
it, because their start is part of every execution.
"""
