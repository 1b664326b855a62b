"""The run directory: its names, its manifest, its journals, and the reader that tails them."""
