"""Critics for CR-Planner (section 2.3): trees are collected, become pairs, a model is fitted to them and measured.

`collect` grows the trees, `pairs` makes the four sets of preferences, `fit` trains, `evaluate` measures.
"""
