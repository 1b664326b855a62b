"""Changes of a training for one run: one file for each target, and the list of them."""
