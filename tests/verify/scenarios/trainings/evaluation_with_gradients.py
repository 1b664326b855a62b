"""Planted: a long evaluation every 30 steps, without torch.no_grad().

rule: evaluation, slow-steps
"""

import torch
from torch import nn

torch.manual_seed(0)
net = nn.Sequential(
    nn.Conv2d(1, 16, 3, padding=1),
    nn.ReLU(),
    nn.Conv2d(16, 32, 3, stride=2, padding=1),
    nn.ReLU(),
    nn.Flatten(),
    nn.Linear(32 * 14 * 14, 10),
)
optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
pictures, digits = torch.randn(2048, 1, 28, 28), torch.randint(0, 10, (2048,))


def accuracy() -> float:
    net.eval()
    right = 0
    for start in range(0, 2048, 64):  # planted
        out = net(pictures[start : start + 64])  # planted
        right += int((out.argmax(1) == digits[start : start + 64]).sum())  # planted
    net.train()
    return right / 2048


for step in range(240):
    chosen = torch.randint(0, 2048, (32,))
    loss = nn.functional.cross_entropy(net(pictures[chosen]), digits[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 30 == 29:
        accuracy()
