"""Rules about what the script does beside its steps, or in Python."""
