"""Planted: two programs of somebody else compute on the same cores meanwhile.

rule: busy-host
"""

import subprocess
import sys

import torch
from torch import nn

NEIGHBOUR = "import time; end = time.time() + 40\nwhile time.time() < end: sum(range(10000))"
# In the background of a shell that ends at once: nobody's child, as in another session.
for _ in range(2):
    subprocess.run(["/bin/sh", "-c", '"$0" -c "$1" >/dev/null 2>&1 &', sys.executable, NEIGHBOUR])

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
features = torch.randn(2048, 512)
labels = torch.randint(0, 10, (2048,))
for step in range(100):
    at = step % 8 * 256
    loss = nn.functional.cross_entropy(model(features[at : at + 256]), labels[at : at + 256])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
