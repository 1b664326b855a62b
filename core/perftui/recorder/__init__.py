"""The process beside the training: terminal, signals, exit code, writer of the run directory."""
