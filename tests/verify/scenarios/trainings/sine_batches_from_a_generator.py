"""Planted: a generator of plain Python makes every batch, value by value, without a DataLoader.

rule: python-bound, input-in-main-thread
gain: 2.4
"""

import math
import random

import torch
from torch import nn

BATCH, LENGTH = 48, 120


def batches(count, seed):
    rng = random.Random(seed)
    for _ in range(count):
        inputs, targets = [], []
        for _ in range(BATCH):
            frequency, phase = rng.uniform(0.5, 2), rng.uniform(0, math.pi)
            wave = [
                math.sin(frequency * t / 8 + phase) + rng.gauss(0, 0.05)  # planted
                for t in range(LENGTH + 1)
            ]
            inputs.append(wave[:-1])
            targets.append(wave[1:])
        yield torch.tensor(inputs), torch.tensor(targets)  # planted


torch.manual_seed(0)
net = nn.Sequential(nn.Linear(LENGTH, 256), nn.Tanh(), nn.Linear(256, 256), nn.Tanh())
head = nn.Linear(256, LENGTH)
params = [*net.parameters(), *head.parameters()]
optimizer = torch.optim.SGD(params, lr=0.05)
scheduler = torch.optim.lr_scheduler.StepLR(optimizer, step_size=100, gamma=0.5)

for step, (x, y) in enumerate(batches(1000, seed=11)):
    optimizer.zero_grad()
    loss = (head(net(x)) - y).pow(2).mean()
    loss.backward()
    optimizer.step()
    scheduler.step()
    if step % 100 == 0:
        print(step, round(loss.item(), 4))
