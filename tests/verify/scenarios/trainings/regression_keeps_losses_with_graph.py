"""Planted: losses are kept with their graphs, and their mean is taken anew in every step.

rule: growing-steps, memory-growth
gain: 7.5
"""

import torch
from torch import nn


class Regressor(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x):
        return self.layers(x).squeeze(-1)


def run_epoch(model, optimizer, batches, losses):
    for x, y in batches:
        loss = nn.functional.l1_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss)  # planted
        running = sum(losses) / len(losses)  # planted
    return running


torch.manual_seed(0)
model = Regressor()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(64 * 150, 20)
y = x[:, 0] - 2 * x[:, 1]
losses = []
for epoch in range(14):
    batches = list(zip(x.split(64), y.split(64), strict=True))
    running = run_epoch(model, optimizer, batches, losses)
    print(f"epoch {epoch}: running loss {float(running):.4f}")
