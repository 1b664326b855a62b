"""Rules about training on the CPU, and about the machine."""
