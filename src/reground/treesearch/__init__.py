"""Tree search over any state type: pure, standard library only, no model in sight.

`mcts` searches, `tree` is what a search gives and what can be read off it, `files` keeps trees as JSON.
"""
