"""Text in its language: words as search terms, and sentences."""
