"""Planted: the default data type is float64, for a network of convolutions that needs none.

rule: float64
"""

import torch
from torch import nn

torch.set_default_dtype(torch.float64)  # planted
torch.manual_seed(0)
model = nn.Sequential(
    nn.Conv2d(3, 24, 3, padding=1), nn.BatchNorm2d(24), nn.ReLU(), nn.MaxPool2d(2),
    nn.Conv2d(24, 48, 3, padding=1), nn.BatchNorm2d(48), nn.ReLU(), nn.AdaptiveAvgPool2d(1),
    nn.Flatten(), nn.Linear(48, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.rand(16, 3, 32, 32), torch.randint(0, 10, (16,))
for _ in range(100):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
