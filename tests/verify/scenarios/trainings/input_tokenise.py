"""Planted: every line is tokenised by regular expressions as the batch is made.

rule: input-in-main-thread
"""

import re

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader

WORD = re.compile(r"[a-z]+|[0-9]|[^\sa-z0-9]", re.IGNORECASE)


def corpus(lines: int) -> list[str]:
    pick = np.random.default_rng(0)
    words = np.array([f"w{number}x" for number in range(5000)])
    return [" ".join(words[pick.integers(0, 5000, 400)]) for _ in range(lines)]


def encode(line: str, length: int = 64) -> list[int]:
    pieces = WORD.findall(line.lower())  # planted
    codes = [sum(map(ord, piece)) % 8000 + 1 for piece in pieces]  # planted
    return (codes + [0] * length)[:length]


def collate(lines: list[str]) -> torch.Tensor:
    return torch.tensor([encode(line) for line in lines])


class Tagger(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(8001, 32)
        self.rnn = nn.GRU(32, 32, batch_first=True)
        self.head = nn.Linear(32, 8001)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden[:, -1])


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = Tagger()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(corpus(3000), batch_size=16, shuffle=True, collate_fn=collate)
    for _ in range(2):
        for batch in loader:
            loss = nn.functional.cross_entropy(model(batch[:, :16]), batch[:, 16])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
