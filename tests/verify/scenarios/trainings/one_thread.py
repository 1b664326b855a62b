"""Planted: torch is told to use one thread, on a machine with more cores.

rule: cpu-threads
"""

import torch
from torch import nn


def configure() -> None:
    """What a cluster's example had at its top."""
    torch.manual_seed(0)
    torch.set_num_threads(1)  # planted


configure()
model = nn.Sequential(
    nn.Conv2d(3, 32, 3, padding=1),
    nn.BatchNorm2d(32),
    nn.ReLU(),
    nn.MaxPool2d(2),
    nn.Conv2d(32, 64, 3, padding=1),
    nn.BatchNorm2d(64),
    nn.ReLU(),
    nn.AdaptiveAvgPool2d(4),
    nn.Flatten(),
    nn.Linear(1024, 10),
)
optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
images = torch.randn(512, 3, 32, 32)
labels = torch.randint(0, 10, (512,))

for step in range(200):
    at = step % 8 * 64
    loss = nn.functional.cross_entropy(model(images[at : at + 64]), labels[at : at + 64])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 50 == 49:
        print(f"step {step + 1} loss {loss.item():.4f}")
