"""Kernel metrics that NVIDIA Nsight Compute (ncu) measured."""
