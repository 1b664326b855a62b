"""Samples of the machine: one small source a file, each a table of metrics."""
