"""Planted: activation and normalisation are written out in many element-wise operators.

rule: memory-bound-elementwise
"""

import math

import torch
from torch import nn

torch.manual_seed(0)


def gelu(x: torch.Tensor) -> torch.Tensor:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)  # planted
    return 0.5 * x * (1 + torch.tanh(inner))  # planted


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        centred = x - x.mean(-1, keepdim=True)  # planted
        spread = (centred * centred).mean(-1, keepdim=True)  # planted
        return centred / (spread + 1e-5).sqrt() * self.scale + self.shift  # planted


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = Norm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + gelu(self.inner(self.norm(x)))


model = nn.Sequential(nn.Linear(32, 256), Block(256), Block(256), Block(256), nn.Linear(256, 4))
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x, labels = torch.randn(2048, 32), torch.randint(0, 4, (2048,))
for _ in range(50):
    loss = nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
