"""Calls that are slow where they stand, and what to write in their place."""
