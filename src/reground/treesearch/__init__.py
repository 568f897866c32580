"""Tree search over any state type, with only the standard library and without models.

`mcts` searches and has the tree that it gives, `files` stores trees as JSON.
"""
