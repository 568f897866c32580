"""Training the embedder of dense and hybrid search, for a benchmark or for one's own documents.

data: questions with their gold passages, and passages that BM25 mistakes for them. fit: contrastive fine-tuning with
sentence-transformers. evaluate: what the trained embedder finds, against BM25 and the embedder it began from.
"""
