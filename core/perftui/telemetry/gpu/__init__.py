"""GPUs: what each metric means, how NVML and AMD SMI are asked for it, and which card is whose."""
