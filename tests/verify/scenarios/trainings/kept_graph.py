"""Planted: a moving average of the outputs keeps the graphs of all steps before.

rule: growing-steps
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
projection = nn.Linear(256, 128)
optimizer = torch.optim.SGD(projection.parameters(), lr=1e-3)
target = torch.randn(128)
average = torch.zeros(128)
for _ in range(260):
    signal = torch.randn(64, 256)
    output = projection(signal)
    average = 0.99 * average + 0.01 * output.mean(0)  # planted
    loss = output.square().mean() + (average - target).square().mean()
    optimizer.zero_grad()
    loss.backward(retain_graph=True)  # planted
    optimizer.step()
