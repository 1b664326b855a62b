"""Where the steps of a training loop end, and how long they usually take."""
