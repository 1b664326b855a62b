"""What is slow, on which evidence, at what cost."""
