"""The table of keys, the person's own keys, and the help texts."""
