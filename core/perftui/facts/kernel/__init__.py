"""Kernels of the steps: which they are, what launches them, how near they come to the card."""
