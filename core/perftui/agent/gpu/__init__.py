"""GPU memory and the time of phases on the GPU."""
