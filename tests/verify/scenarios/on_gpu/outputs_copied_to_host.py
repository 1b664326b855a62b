"""Planted: all scores of a step are copied to the host, for an accuracy that the GPU could count.

rule: copies-exposed
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 20_000)).cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
right = 0
for _ in range(100):
    rows = torch.randn(1024, 256, device="cuda")
    labels = rows.argmax(1)
    scores = model(rows)
    loss = nn.functional.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    # fixed: right = right + (scores.argmax(1) == labels).sum()
    right += int((scores.detach().cpu().argmax(1) == labels.cpu()).sum())  # planted
print(f"loss {loss.item():.6f} {int(right)}", flush=True)
