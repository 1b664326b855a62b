"""Patches of source files, one transform a file. None is offered that is not certain."""
