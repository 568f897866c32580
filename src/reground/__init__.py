"""reground: hard questions in, grounded answers out."""

__version__ = "0.1.0"
