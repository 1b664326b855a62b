"""What this machine can do at most, measured in seconds: `perftui probe`."""
