"""Planted: a next-item model scores all items at every position, and uses the last position only.

rule: dropped-results
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
users, items, width = (1536, 50_000, 256) if device == "cuda" else (32, 4000, 64)
kind = torch.bfloat16 if device == "cuda" else torch.float32


class NextItem(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.items = nn.Embedding(4000, width)
        self.gru = nn.GRU(width, width, batch_first=True)
        self.scores = nn.Linear(width, items)

    def forward(self, seen: torch.Tensor) -> torch.Tensor:
        states, _ = self.gru(self.items(seen))
        # fixed: return self.scores(states[:, -1])
        return self.scores(states)[:, -1]  # planted


model = NextItem().to(device, kind)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(200 if device == "cuda" else 100):
    seen = torch.randint(0, 4000, (users, 20), device=device)
    bought = torch.randint(0, 4000, (users,), device=device)
    loss = nn.functional.cross_entropy(model(seen), bought)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
