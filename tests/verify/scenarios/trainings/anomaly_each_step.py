"""Planted: forward and backward run inside detect_anomaly in every step.

rule: debug-flags
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up, self.down = nn.Linear(width, width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.down(torch.relu(self.up(self.norm(x))))


def train(model: nn.Module, optimizer: torch.optim.Optimizer, steps: int) -> None:
    data, target = torch.randn(4096, 48), torch.randn(4096, 1)
    for _ in range(steps):
        at = torch.randint(0, 4096, (32,))
        with torch.autograd.detect_anomaly():  # planted
            loss = (model(data[at]) - target[at]).square().mean()
            optimizer.zero_grad()
            loss.backward()
        optimizer.step()


if __name__ == "__main__":
    model = nn.Sequential(*(Block(48) for _ in range(10)), nn.Linear(48, 1))
    train(model, torch.optim.AdamW(model.parameters()), 400)
