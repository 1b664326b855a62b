"""Planted: the weights' statistics go to a JSON log, flushed to the disk after every step.

rule: python-bound
"""

import json
import os
import tempfile
from pathlib import Path

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 10))
optimizer = torch.optim.AdamW(model.parameters())
log = (Path(tempfile.mkdtemp()) / "log.jsonl").open("w")


def write_log(step: int, logits: torch.Tensor, loss: float) -> None:
    values = logits.flatten().tolist()  # planted
    mean = sum(values) / len(values)  # planted
    spread = sum((value - mean) ** 2 for value in values) / len(values)  # planted
    entry = {"step": step, "loss": loss, "mean": mean, "spread": spread, "logits": values}
    log.write(json.dumps(entry) + "\n")  # planted
    log.flush()  # planted
    os.fsync(log.fileno())  # planted


for step in range(300):
    images, labels = torch.randn(512, 256), torch.randint(0, 10, (512,))
    logits = model(images)
    loss = nn.functional.cross_entropy(logits, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    write_log(step, logits.detach(), loss.item())
