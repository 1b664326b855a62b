"""Snapshots of torch's device memory: what ``torch.cuda.memory._dump_snapshot`` writes."""
