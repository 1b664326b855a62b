"""Planted: activations are computed twice to save memory that nobody needs.

rule: backward-recompute
gain: 1.55
"""

import torch
from torch import nn
from torch.utils.checkpoint import checkpoint


class Block(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.inner = nn.Sequential(
            nn.Linear(width, 2 * width), nn.ReLU(), nn.Linear(2 * width, width), nn.ReLU()
        )

    def forward(self, x):
        return x + self.inner(x)


class Deep(nn.Module):
    def __init__(self, width=384, depth=6, save_memory=True):
        super().__init__()
        self.blocks = nn.ModuleList(Block(width) for _ in range(depth))
        self.head = nn.Linear(width, 20)
        self.save_memory = save_memory

    def forward(self, x):
        for block in self.blocks:
            if self.save_memory:
                x = checkpoint(block, x, use_reentrant=False)  # planted
            else:
                x = block(x)
        return self.head(x)


class Trainer:
    def __init__(self, model, learning_rate):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=learning_rate)
        self.scheduler = torch.optim.lr_scheduler.ExponentialLR(self.optimizer, 0.9)

    def training_step(self, x, y):
        return nn.functional.cross_entropy(self.model(x), y)

    def fit(self, data, epochs):
        for epoch in range(epochs):
            for x, y in data:
                loss = self.training_step(x, y)
                self.optimizer.zero_grad()
                loss.backward()  # planted
                self.optimizer.step()
            self.scheduler.step()
            print(f"epoch {epoch} | loss {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    data = [(torch.randn(96, 384), torch.randint(0, 20, (96,))) for _ in range(30)]
    Trainer(Deep(), 0.01).fit(data, 10)
