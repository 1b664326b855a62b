"""Planted: the model is run on the same batch again after the step, for the accuracy.

rule: repeated-forward
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
rows, width = (131_072, 4096) if device == "cuda" else (256, 1024)
kind = torch.bfloat16 if device == "cuda" else torch.float32
model = nn.Sequential(
    nn.Linear(128, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, 10)
).to(device, kind)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
features = torch.randn(80 * rows, 128, device=device, dtype=kind)
labels = torch.randint(0, 10, (80 * rows,), device=device)
right = 0
for inputs, wanted in zip(features.split(rows), labels.split(rows), strict=True):
    outputs = model(inputs)
    loss = nn.functional.cross_entropy(outputs, wanted)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        # fixed:
        outputs = model(inputs)  # planted
        right += int((outputs.argmax(1) == wanted).sum())
print(f"loss {loss.item():.6f} {right}", flush=True)
