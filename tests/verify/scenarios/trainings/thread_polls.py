"""Planted: a thread polls a queue without ever sleeping.

rule: gil-contention
"""

import queue
import threading

import torch
from torch import nn

metrics: queue.Queue[float] = queue.Queue()
written: list[float] = []


def write_metrics() -> None:
    """Take what there is, as soon as it is there."""
    while True:
        if not metrics.empty():  # planted
            written.append(metrics.get())


torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(1, 16, 3),
    nn.ReLU(),
    nn.Conv2d(16, 16, 3),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(2304, 4),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images = torch.randn(512, 1, 16, 16)
labels = torch.randint(0, 4, (512,))
threading.Thread(target=write_metrics, name="metrics", daemon=True).start()
for step in range(2000):
    at = step % 16 * 32
    loss = nn.functional.cross_entropy(model(images[at : at + 32]), labels[at : at + 32])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    metrics.put(loss.item())
print(f"loss {loss.item():.4f}")
