"""Starts the agent inside the training process, once torch has been imported."""
