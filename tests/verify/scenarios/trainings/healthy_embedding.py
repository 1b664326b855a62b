"""Planted: nothing; a click model with sparse gradients for its large table.

rule: healthy
"""

import torch
from torch import nn

torch.manual_seed(0)


class Clicks(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = nn.EmbeddingBag(500_000, 32, mode="mean", sparse=True)
        self.deep = nn.Sequential(
            nn.Linear(32 + 64, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 1)
        )

    def forward(self, items: torch.Tensor, numbers: torch.Tensor) -> torch.Tensor:
        return self.deep(torch.cat([self.items(items), numbers], 1)).squeeze(1)


model = Clicks()
sparse = torch.optim.SGD(model.items.parameters(), lr=0.1)
dense = torch.optim.Adam(model.deep.parameters(), lr=1e-3, fused=True)
items, numbers = torch.randint(0, 500_000, (5120, 20)), torch.randn(5120, 64)
for step in range(60):
    at = step * 512 % 5120
    clicked = model(items[at : at + 512], numbers[at : at + 512])
    loss = nn.functional.binary_cross_entropy_with_logits(
        clicked, numbers[at : at + 512, 0].sigmoid()
    )
    sparse.zero_grad()
    dense.zero_grad()
    loss.backward()
    sparse.step()
    dense.step()
print(f"loss {loss.item():.6f}", flush=True)
