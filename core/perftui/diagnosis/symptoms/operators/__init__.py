"""Rules about the work of operators and kernels, on the GPU or the CPU."""
