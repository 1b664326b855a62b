"""The perftui command and its Textual app."""
