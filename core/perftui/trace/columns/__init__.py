"""What is done to the columns of any trace: storing, nesting, and the compiled loops."""
