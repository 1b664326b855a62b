"""Fixes of the data loader: workers, pinned memory, workers that stay."""
