"""Metrics, named exactly: exact match, cover-EM, token F1, accuracy, pass@k, nDCG@10."""
