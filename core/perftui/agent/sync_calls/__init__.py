"""Calls that make the host wait for the GPU, by the line that makes them."""
