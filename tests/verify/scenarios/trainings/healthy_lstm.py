"""Planted: nothing; a language model with torch's own LSTM.

rule: healthy
"""

import torch
from torch import nn

torch.manual_seed(0)


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.words = nn.Embedding(200, 128)
        self.memory = nn.LSTM(128, 128, num_layers=2, batch_first=True)
        self.head = nn.Linear(128, 200)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.memory(self.words(tokens))[0])


model = LanguageModel()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
text = torch.randint(0, 200, (32, 1601))
for step in range(40):
    at = step * 32 % 1600
    logits = model(text[:, at : at + 32])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), text[:, at + 1 : at + 33].flatten())
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
