"""Planted: Adam goes through three hundred small tensors one after the other.

rule: optimizer-single-tensor
gain: 1.50
"""

import dataclasses

import torch
from torch import nn, optim


@dataclasses.dataclass
class Config:
    layers: int = 24
    width: int = 64
    heads: int = 4
    length: int = 8
    batch: int = 2
    steps: int = 220
    seed: int = 0


class Model(nn.Module):
    def __init__(self, config: Config):
        super().__init__()
        layer = nn.TransformerEncoderLayer(
            config.width, config.heads, 2 * config.width, dropout=0.0, batch_first=True
        )
        self.enter = nn.Linear(16, config.width)
        self.body = nn.TransformerEncoder(layer, config.layers, enable_nested_tensor=False)
        self.leave = nn.Linear(config.width, 1)

    def forward(self, x):
        return self.leave(self.body(self.enter(x)))


def main(config: Config):
    torch.manual_seed(config.seed)
    model = Model(config)
    optimizer = optim.Adam(model.parameters(), lr=1e-4, amsgrad=True)  # planted
    print(sum(1 for _ in model.parameters()), "tensors")
    series = torch.randn(config.steps, config.batch, config.length, 16)
    for step in range(config.steps):
        x = series[step]
        loss = nn.functional.mse_loss(model(x), x.mean(-1, keepdim=True))
        loss.backward()
        optimizer.step()  # planted
        optimizer.zero_grad()
        if step % 40 == 0:
            print(f"step {step}: {loss.item():.4f}")


if __name__ == "__main__":
    main(Config())
