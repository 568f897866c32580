"""Proposing questions of several steps about documents, with answers and the passages that support them.

pairs: passages that are linked by a title, a name or a rare term. checks: what a proposal must be. propose: a model
writes a question from both passages of a pair, and it is kept if the model answers it from both but from neither alone.
store: the file of proposals, which a person reads and edits.
"""
