"""Planted: a GRU cell is called for each of 100 time steps in Python.

rule: loop-of-indexing, python-bound
"""

import torch
from torch import nn

torch.manual_seed(0)


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.cell = nn.GRUCell(64, 96)
        self.head = nn.Linear(96, 12)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        embedded = self.embed(tokens)
        state = embedded.new_zeros(len(tokens), 96)
        states = []
        for time in range(tokens.shape[1]):  # planted
            state = self.cell(embedded[:, time], state)  # planted
            states.append(state)
        return self.head(torch.stack(states, 1))


model = Tagger()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(150):
    tokens = torch.randint(0, 1000, (16, 100))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), (tokens % 12).flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
