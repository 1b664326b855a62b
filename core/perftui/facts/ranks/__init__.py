"""The ranks of a training side by side, and what they spend in collectives."""
