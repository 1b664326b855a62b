"""Profiled windows: when they open, how long they are, what they record."""
