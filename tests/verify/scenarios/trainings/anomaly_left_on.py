"""Planted: anomaly detection was left on after a hunt for NaN.

rule: debug-flags
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
device = "cuda" if torch.cuda.is_available() else "cpu"
# fixed:
torch.autograd.set_detect_anomaly(True)  # planted


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(2000, 64)
        self.cell = nn.GRUCell(64, 64)
        self.out = nn.Linear(64, 20)

    def forward(self, words: torch.Tensor) -> torch.Tensor:
        inputs = self.words(words)
        state = inputs.new_zeros(len(words), 64)
        found = []
        for at in range(words.shape[1]):
            state = self.cell(inputs[:, at], state)
            found.append(self.out(state))
        return torch.stack(found, 1)


words = torch.randint(0, 2000, (512, 12), device=device)
tags = words % 20
model = Tagger().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for _ in range(150 if device == "cuda" else 300):
    chosen = torch.randint(0, 512, (32,), device=device)
    optimizer.zero_grad()
    scores = model(words[chosen])
    nn.functional.cross_entropy(scores.flatten(0, 1), tags[chosen].flatten()).backward()
    optimizer.step()
