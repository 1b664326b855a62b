"""Keeps failures, signals and forks from letting the agent harm the training."""
