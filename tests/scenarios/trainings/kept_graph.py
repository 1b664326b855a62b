"""Planted: the loss carries the graphs of all steps before it, and backward goes through them.

rule: growing-steps
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
cell = nn.GRUCell(64, 128)
head = nn.Linear(128, 64)
optimizer = torch.optim.SGD([*cell.parameters(), *head.parameters()], lr=1e-4, foreach=False)
regularizer = torch.zeros(())
signal = torch.randn(301, 16, 64)
hidden = torch.zeros(16, 128)
for step in range(300):
    hidden = cell(signal[step], hidden.detach())
    loss = (head(hidden) - signal[step + 1]).square().mean()
    size = hidden.abs().mean()
    regularizer = regularizer * 0.99 + size * 0.01
    total = loss + 0.0 * regularizer
    optimizer.zero_grad()
    total.backward(retain_graph=True)  # planted
    with torch.no_grad():
        for weight in [*cell.parameters(), *head.parameters()]:
            weight.data.add_(weight.grad, alpha=-1e-4)
