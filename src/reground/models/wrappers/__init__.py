"""Wrappers around every adapter: limits, retries, a shared cache."""
