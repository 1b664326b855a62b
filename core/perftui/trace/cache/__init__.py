"""Caches traces as columns, so that opening one again reads no text."""
