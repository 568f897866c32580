"""Hostile trials of what reground promises: killed runs, faults, forged verdicts, control tokens, bad input.

`make campaign` runs all of it and goes on where it stopped. `make test` runs a short form.
"""
