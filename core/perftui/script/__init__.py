"""Reads the source of a script: what names mean, what is trained, and what is written by hand."""
