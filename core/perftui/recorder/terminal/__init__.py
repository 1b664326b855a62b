"""Terminals, the keyboard and the script's output."""
