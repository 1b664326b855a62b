"""The process beside the training: terminal, signals, exit code, and the one writer of the run directory."""
