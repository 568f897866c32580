"""Tree search over any state type: pure, standard library only, no model in sight.

`mcts` searches, `tree` is the result and how to read it, `files` stores trees as JSON.
"""
