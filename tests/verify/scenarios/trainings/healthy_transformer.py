"""Planted: nothing; a small transformer with scaled_dot_product_attention.

rule: healthy
"""

import torch
from torch import nn
from torch.nn import functional

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, width: int, heads: int) -> None:
        super().__init__()
        self.heads = heads
        self.first, self.second = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.inner = nn.Sequential(
            nn.Linear(width, 4 * width), nn.GELU(), nn.Linear(4 * width, width)
        )

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        batch, length, width = x.shape
        shape = (batch, length, self.heads, width // self.heads)
        q, k, v = (one.view(shape).transpose(1, 2) for one in self.qkv(self.first(x)).chunk(3, -1))
        y = functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(y.transpose(1, 2).reshape(batch, length, width))
        return x + self.inner(self.second(x))


model = nn.Sequential(
    nn.Embedding(1000, 128),
    *(Block(128, 4) for _ in range(4)),
    nn.LayerNorm(128),
    nn.Linear(128, 1000),
)
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, fused=True)
text = torch.randint(0, 500, (8, 1281))
for step in range(60):
    at = step * 128 % 1280
    logits = model(text[:, at : at + 128])
    loss = functional.cross_entropy(logits.flatten(0, 1), text[:, at + 1 : at + 129].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
