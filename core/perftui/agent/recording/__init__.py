"""Recording of one training process, from its first step to its end."""
