"""Layers."""

ROWS = ()
