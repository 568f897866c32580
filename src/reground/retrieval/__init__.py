"""Corpora, chunking, indexes and fusion."""
