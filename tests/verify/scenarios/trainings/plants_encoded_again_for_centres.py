"""Planted: a second loss runs the encoder again on the batch that it has just seen.

rule: repeated-work
"""

import torch
from torch import nn


def encoder():
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )


def distance_to_centres(body, centres, leaves, kinds):
    return (body(leaves) - centres[kinds]).square().mean()  # planted


torch.manual_seed(0)
body, head = encoder(), nn.Linear(64, 12)
centres = torch.randn(12, 64)
weights = [*body.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(weights, lr=0.01)
for step in range(110):
    leaves, kinds = torch.randn(16, 3, 40, 40), torch.randint(0, 12, (16,))
    loss = nn.functional.cross_entropy(head(body(leaves)), kinds)
    loss = loss + 0.1 * distance_to_centres(body, centres, leaves, kinds)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 40 == 0:
        print(step, f"{loss.item():.4f}")
