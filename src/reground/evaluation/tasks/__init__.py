"""Benchmarks, one file a family."""
