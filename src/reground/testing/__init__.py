"""Servers to test against: they speak real protocols on loopback and misbehave on demand."""
