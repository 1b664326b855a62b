"""Several recorders of one run, on one host or many."""
