"""The parts of RaR: its prompts, how it grows with a budget, what stands beside the paper for small models, and the whole answer of phase 2."""
