"""Planted: only the head is trained, and yet gradients of the whole backbone are computed.

rule: unused-gradients
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
rows = 4096 if device == "cuda" else 16
backbone = nn.Sequential(
    nn.Conv2d(3, 32, 3, stride=2, padding=1), nn.ReLU(),
    nn.Conv2d(32, 64, 3, padding=1), nn.ReLU(),
    nn.Conv2d(64, 64, 3, padding=1), nn.ReLU(),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(),
).to(device)  # fmt: skip
# fixed: head = nn.Linear(64, 10).to(device)
# fixed: backbone.requires_grad_(False)
head = nn.Linear(64, 10).to(device)
optimizer = torch.optim.Adam(head.parameters(), lr=1e-3)  # planted
images = torch.rand(rows, 3, 48, 48, device=device)
labels = torch.randint(0, 10, (rows,), device=device)
for _ in range(200 if device == "cuda" else 100):
    loss = nn.functional.cross_entropy(head(backbone(images)), labels)  # planted
    backbone.zero_grad()
    optimizer.zero_grad()
    loss.backward()  # planted
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
