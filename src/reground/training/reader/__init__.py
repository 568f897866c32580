"""Training of a reader and hop-writer: a small model for the two calls of `reground.methods.grounded`."""
