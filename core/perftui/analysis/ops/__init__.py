"""Operators: the calls of a trace in groups, what they launched, and who calls them."""
