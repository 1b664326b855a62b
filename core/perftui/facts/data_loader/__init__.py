"""How the data loader makes batches, and how long the training waits for them."""
