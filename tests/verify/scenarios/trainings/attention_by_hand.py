"""Planted: attention is written out as two products with a softmax between them.

rule: unfused-attention
"""

import math

import torch
from torch import nn

torch.manual_seed(0)


class Attention(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads, self.qkv, self.out = heads, nn.Linear(width, 3 * width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        split = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        q, k, v = split.permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # planted
        later = torch.ones(length, length).triu(1).bool()
        scores = scores.masked_fill(later, float("-inf"))  # planted
        y = torch.softmax(scores, -1) @ v  # planted
        return self.out(y.transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.LayerNorm(64), nn.LayerNorm(64)
        self.attention = Attention(64, 4)
        self.inner = nn.Sequential(nn.Linear(64, 128), nn.GELU(), nn.Linear(128, 64))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = x + self.attention(self.first(x))
        return x + self.inner(self.second(x))


model = nn.Sequential(nn.Embedding(200, 64), Block(), Block(), nn.Linear(64, 200))
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
for _ in range(80):
    tokens = torch.randint(0, 200, (2, 385))
    logits = model(tokens[:, :-1])
    loss = nn.functional.cross_entropy(logits.flatten(0, 1), tokens[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
