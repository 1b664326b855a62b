"""Planted: nothing; wide layers, a fused optimizer, batches that are slices of one tensor.

rule: healthy
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(512, 1024),
    nn.ReLU(),
    nn.Dropout(0.1),
    nn.Linear(1024, 1024),
    nn.ReLU(),
    nn.Linear(1024, 10),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
features, labels = torch.randn(8192, 512), torch.randint(0, 10, (8192,))
for _ in range(5):
    for at in range(0, 8192, 512):
        loss = nn.functional.cross_entropy(model(features[at : at + 512]), labels[at : at + 512])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
