"""The processors: how busy, how fast, and how many of them the run may use."""
