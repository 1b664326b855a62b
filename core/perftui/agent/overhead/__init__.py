"""What the agent costs the training, and the budget for it."""
