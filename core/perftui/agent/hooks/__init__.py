"""Wrappers of torch's functions, invisible to the script."""
