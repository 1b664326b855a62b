"""Rules about data: the training waits for batches."""
