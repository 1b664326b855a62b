"""The part inside the training process: standard library only, no thread, no socket, no wait."""
