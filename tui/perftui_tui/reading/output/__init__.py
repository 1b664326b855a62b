"""The script's terminal output: read as it grows, progress bars drawn right, memory bounded."""
