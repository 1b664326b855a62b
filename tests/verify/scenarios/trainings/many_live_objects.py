"""Planted: a vocabulary of Python objects, and new ones in every step: full collections recur.

rule: gc-pauses
"""

import torch
from torch import nn

vocabulary = {  # planted
    f"word{number}": {"id": number, "pieces": [number, number + 1]} for number in range(400_000)
}
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Embedding(1000, 64), nn.Flatten(), nn.Linear(64 * 32, 256), nn.ReLU(), nn.Linear(256, 8)
)
optimizer = torch.optim.Adam(model.parameters())
recent = []
for step in range(250):
    tokens = torch.randint(0, 1000, (64, 32))
    loss = nn.functional.cross_entropy(model(tokens), torch.randint(0, 8, (64,)))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    recent.append([{"sample": at, "meta": [at, step]} for at in range(6000)])  # planted
    if len(recent) > 40:
        print("oldest:", sum(sample["sample"] for sample in recent[0]))
        recent = []
