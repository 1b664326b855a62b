"""Threads that read runs, traces and output, and the snapshots that screens draw."""
