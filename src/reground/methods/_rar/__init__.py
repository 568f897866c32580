"""The parts of RaR: prompts, steps, and when its rounds are over."""
