"""The Runs screen: recorded runs to open, name and delete."""
