"""How much of the batches that the training computes on is padding."""
