"""Isolated execution of generated programs."""
