"""The compiled hooks of a loop whose steps repeat."""
