"""The viewer: a page on which runs, trajectories and search trees are read, live or as one file."""
