"""What a script does beside its steps: saving, compiling, evaluating, collecting garbage."""
