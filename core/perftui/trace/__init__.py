"""Saved profiler traces of every format, all loaded into one columnar Trace."""
