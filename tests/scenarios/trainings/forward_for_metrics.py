"""Planted: the model is run on the same batch again after the step, for the accuracy.

rule: repeated-forward
"""

import torch
from torch import nn

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 10)
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
features, labels = torch.randn(20480, 128), torch.randint(0, 10, (20480,))
right = 0
for inputs, wanted in zip(features.split(256), labels.split(256), strict=True):
    loss = nn.functional.cross_entropy(model(inputs), wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        outputs = model(inputs)  # planted
        right += int((outputs.argmax(1) == wanted).sum())
print(f"loss {loss.item():.6f} {right}", flush=True)
