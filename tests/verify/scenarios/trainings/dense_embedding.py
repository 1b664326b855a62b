"""Planted: a table of 300,000 embeddings gets dense gradients, and Adam updates all of it.

rule: dense-gradients
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
items = 24_000_000 if device == "cuda" else 300_000


class Recommender(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        # fixed: self.items = nn.Embedding(items, 32, sparse=True, device=device)
        self.items = nn.Embedding(items, 32, device=device)  # planted
        self.head = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, pairs: torch.Tensor) -> torch.Tensor:
        return self.head(self.items(pairs).flatten(1)).squeeze(1)  # planted


model = Recommender().to(device)
# fixed: optimizer = torch.optim.Adam(model.head.parameters(), lr=1e-3)
# fixed: of_items = torch.optim.SparseAdam(model.items.parameters(), lr=1e-3)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)  # planted
for _ in range(150 if device == "cuda" else 60):
    pairs = torch.randint(0, items, (512, 2), device=device)
    wanted = (pairs.sum(1) % 2).float()
    loss = nn.functional.binary_cross_entropy_with_logits(model(pairs), wanted)
    optimizer.zero_grad()
    # fixed: of_items.zero_grad()
    # fixed: loss.backward()
    # fixed: of_items.step()
    loss.backward()  # planted
    optimizer.step()  # planted
print(f"loss {loss.item():.6f}", flush=True)
