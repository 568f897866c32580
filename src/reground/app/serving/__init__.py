"""Methods over models and documents that stay open, for those who ask again and again."""
