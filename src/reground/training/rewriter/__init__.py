"""Training a query rewriter: warm-up and reinforcement learning (Rewrite-Retrieve-Read, section 3.2)."""
