"""Planted: a thread of the same process parses records all the time, and holds Python's lock.

rule: gil-contention
"""

import json
import threading

import torch
from torch import nn

RECORD = json.dumps({"user": 17, "items": [{"id": at, "score": at / 7} for at in range(40)]})


class Collector(threading.Thread):
    """Keeps statistics of a stream of records up to date."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.total = 0.0

    def run(self) -> None:
        while True:
            record = json.loads(RECORD)  # planted
            for item in record["items"]:  # planted
                self.total += item["score"]  # planted


torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 128), nn.ReLU(), nn.Linear(128, 4)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
features = torch.randn(1024, 64)
labels = torch.randint(0, 4, (1024,))
Collector().start()
for step in range(2400):
    at = step % 16 * 64
    loss = nn.functional.cross_entropy(model(features[at : at + 64]), labels[at : at + 64])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
