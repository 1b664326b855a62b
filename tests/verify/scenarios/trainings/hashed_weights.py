"""Planted: a checksum of all weights is computed in every step, to find out when they change.

rule: python-bound
"""

import hashlib

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(512, 2048), nn.ReLU(), nn.Linear(2048, 512))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)


def fingerprint(module: nn.Module) -> str:
    digest = hashlib.sha256()
    for name, value in module.state_dict().items():
        digest.update(name.encode())
        digest.update(value.numpy().tobytes())  # planted
    return digest.hexdigest()


known = set()
for _ in range(200):
    batch = torch.randn(64, 512)
    loss = (model(batch) - batch).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    known.add(fingerprint(model))
