"""Pauses of Python's garbage collector."""
