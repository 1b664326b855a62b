"""GPUs: metrics, questions to NVML and AMD SMI, and which card a training uses."""
