"""Planted: a variable set for the data loader's workers leaves the training one thread.

rule: cpu-threads
"""

import os

os.environ["OMP_NUM_THREADS"] = "1"  # planted
os.environ["TOKENIZERS_PARALLELISM"] = "false"

import torch
from torch import nn


class Encoder(nn.Module):
    """A small transformer over tokens."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(2000, 256)
        layer = nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True)
        self.encoder = nn.TransformerEncoder(layer, 2)
        self.head = nn.Linear(256, 2000)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        """Logits of the next token at each place."""
        return self.head(self.encoder(self.embed(tokens)))


def main() -> None:
    """Train it on random tokens."""
    torch.manual_seed(0)
    model = Encoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
    tokens = torch.randint(0, 2000, (256, 65))
    for step in range(80):
        batch = tokens[step % 32 * 8 : step % 32 * 8 + 8]
        logits = model(batch[:, :-1])
        loss = nn.functional.cross_entropy(logits.flatten(0, 1), batch[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


main()
