"""Planted: the exponential average of the weights is updated parameter by parameter.

rule: per-parameter-loop
gain: 1.54
"""

import torch
from torch import nn


class Residual(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.scale = nn.Parameter(torch.ones(width))
        self.inner = nn.Linear(width, width)

    def forward(self, x):
        return x + self.scale * torch.relu(self.inner(self.norm(x)))


class Ema:
    def __init__(self, model, decay=0.999):
        self.decay = decay
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        for name, parameter in model.named_parameters():
            old = self.shadow[name]
            self.shadow[name] = self.decay * old + (1 - self.decay) * parameter  # planted


def train(model, ema, data, labels, epochs):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    for epoch in range(epochs):
        for x, y in zip(data.split(16), labels.split(16), strict=True):
            loss = nn.functional.cross_entropy(model(x), y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            ema.update(model)  # planted
        print(f"epoch {epoch}: loss {loss.item():.4f}")


def main():
    torch.manual_seed(0)
    blocks = [Residual(48) for _ in range(50)]
    model = nn.Sequential(nn.Linear(24, 48), *blocks, nn.Linear(48, 10))
    data, labels = torch.rand(16 * 100, 24), torch.randint(0, 10, (1600,))
    train(model, Ema(model), data, labels, epochs=5)


if __name__ == "__main__":
    main()
