"""The parts of RaR: prompts, steps, passages, the whole answer of phase 2, budgets, and what is for small models."""
