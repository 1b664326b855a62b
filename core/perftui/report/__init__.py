"""The diagnosis without a terminal: text and JSON."""
