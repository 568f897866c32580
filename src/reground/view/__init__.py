"""The viewer: a page on which runs and trajectories are read, live or as one file."""
