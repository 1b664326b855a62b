"""Planted: padding is masked row by row, and means are taken row by row, inside the model.

rule: loop-of-indexing
"""

import torch
from torch import nn

torch.manual_seed(0)


class Pooled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2000, 64)
        self.hidden, self.head = nn.Linear(64, 64), nn.Linear(64, 5)

    def forward(self, tokens: torch.Tensor, lengths: list[int]) -> torch.Tensor:
        x = torch.tanh(self.hidden(self.words(tokens)))
        mask = torch.zeros(tokens.shape)
        for row, length in enumerate(lengths):  # planted
            mask[row, :length] = 1.0  # planted
        means = [x[row, :length].mean(0) for row, length in enumerate(lengths)]  # planted
        return self.head(torch.stack(means)) + mask.mean()


model = Pooled()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
lengths = [5 + 7 * row % 23 for row in range(64)]
for _ in range(150):
    tokens = torch.randint(0, 2000, (64, 30))
    loss = nn.functional.cross_entropy(model(tokens, lengths), tokens[:, 0] % 5)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
