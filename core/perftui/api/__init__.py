"""What ``import perftui`` offers to scripts and notebooks that read runs and traces."""
