"""Planted: activation and normalisation are written out in many element-wise operators.

rule: memory-bound-elementwise
"""

import math

import torch
from torch import nn

torch.manual_seed(0)
torch.set_float32_matmul_precision("high")
device = "cuda" if torch.cuda.is_available() else "cpu"
rows, width = (65_536, 1024) if device == "cuda" else (2048, 256)


def gelu(x: torch.Tensor) -> torch.Tensor:
    # fixed:
    inner = math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x)  # planted
    # fixed: return nn.functional.gelu(x, approximate="tanh")
    return 0.5 * x * (1 + torch.tanh(inner))  # planted


class Norm(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.scale, self.shift = nn.Parameter(torch.ones(width)), nn.Parameter(torch.zeros(width))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # fixed:
        centred = x - x.mean(-1, keepdim=True)  # planted
        # fixed:
        spread = (centred * centred).mean(-1, keepdim=True)  # planted
        # fixed: return nn.functional.layer_norm(x, x.shape[-1:], self.scale, self.shift)
        return centred / (spread + 1e-5).sqrt() * self.scale + self.shift  # planted


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = Norm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + gelu(self.inner(self.norm(x)))


blocks = [Block(width) for _ in range(3)]
model = nn.Sequential(nn.Linear(32, width), *blocks, nn.Linear(width, 4)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
x = torch.randn(rows, 32, device=device)
labels = torch.randint(0, 4, (rows,), device=device)
for _ in range(100 if device == "cuda" else 50):
    loss = nn.functional.cross_entropy(model(x), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
