"""Edits of Python source files, each proved to change what was asked for and nothing else."""
