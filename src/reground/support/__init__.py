"""Which sentence of the documents supports each sentence of an answer."""
