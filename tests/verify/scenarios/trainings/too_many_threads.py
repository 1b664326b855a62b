"""Planted: as many threads as the machine had that the script was written for.

rule: cpu-threads
"""

import argparse

import torch
from torch import nn

parser = argparse.ArgumentParser()
parser.add_argument("--threads", type=int, default=32)
options = parser.parse_args()

torch.manual_seed(0)
torch.set_num_threads(options.threads)  # planted
model = nn.Sequential(
    nn.Linear(256, 1024), nn.GELU(), nn.Linear(1024, 1024), nn.GELU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
features = torch.randn(2048, 256)
labels = torch.randint(0, 10, (2048,))
for step in range(150):
    at = step % 8 * 256
    loss = nn.functional.cross_entropy(model(features[at : at + 256]), labels[at : at + 256])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.4f}")
