"""Runs compared: what a fix changed, and how sure that is."""
