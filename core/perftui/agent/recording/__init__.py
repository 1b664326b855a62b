"""What one training process records, from its first step to its end."""
