"""The traces of a directory: which rank wrote each, and which belong together."""
