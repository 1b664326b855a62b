"""Healthy: other threads of the process wait, and seldom do a little.

rule: healthy
"""

import queue
import threading
import time

import torch
from torch import nn

losses: queue.Queue[float | None] = queue.Queue()
written: list[str] = []


def write_losses() -> None:
    """Format what comes, and wait for the next."""
    while (loss := losses.get()) is not None:
        written.append(f"{loss:.6f}")


def watch_clock() -> None:
    """What progress bars do beside the training."""
    while True:
        time.sleep(0.1)


torch.manual_seed(0)
threading.Thread(target=watch_clock, daemon=True).start()
writer = threading.Thread(target=write_losses)
writer.start()
model = nn.Sequential(
    nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
features = torch.randn(4096, 512)
labels = torch.randint(0, 10, (4096,))
for step in range(240):
    at = step % 16 * 256
    loss = nn.functional.cross_entropy(model(features[at : at + 256]), labels[at : at + 256])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    losses.put(loss.item())
losses.put(None)
writer.join()
print(f"{len(written)} losses, the last {written[-1]}")
