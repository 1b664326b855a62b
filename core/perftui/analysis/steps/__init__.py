"""Training steps: where they are, what they are split into, and which are slow."""
