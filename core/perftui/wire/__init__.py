"""Formats and names that the agent and the recorder share, standard library only."""
