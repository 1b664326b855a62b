"""Profiled windows: timing, length and content."""
