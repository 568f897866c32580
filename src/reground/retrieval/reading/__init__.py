"""One file a format: how the text of a file is found. `reground.retrieval.documents` chooses among them."""
