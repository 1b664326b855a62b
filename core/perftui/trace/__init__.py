"""Saved profiler traces of every format, all ending in one columnar Trace."""
