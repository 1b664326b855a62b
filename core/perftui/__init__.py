"""Record, read and diagnose PyTorch training runs, without a user interface."""

__version__ = "0.1.0"
