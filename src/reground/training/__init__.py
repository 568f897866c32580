"""What the helper models are trained on, and their trainers."""
