"""The lines of the user's own code that time goes to, by samples, stacks and the source itself."""
