"""Tree search over any state type, with only the standard library and without models.

`mcts` searches, `tree` is the result and how to read it, `files` stores trees as JSON.
"""
