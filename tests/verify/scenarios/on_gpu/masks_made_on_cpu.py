"""Planted: each layer makes its mask and its positions on the CPU and copies them to the GPU.

rule: created-on-cpu
"""

import torch
from torch import nn

torch.manual_seed(0)
LENGTH, WIDTH = 2048, 256


class Layer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.queries, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH)
        self.places = nn.Embedding(LENGTH, WIDTH)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # fixed: mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool, device=x.device).tril()
        mask = torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril().to(x.device)  # planted
        # fixed: places = torch.arange(LENGTH, device=x.device)
        places = torch.arange(LENGTH).to(x.device)  # planted
        x = x + self.places(places)
        heads = self.queries(x).view(len(x), LENGTH, 3, 4, -1).permute(2, 0, 3, 1, 4)
        attended = nn.functional.scaled_dot_product_attention(*heads, attn_mask=mask)
        return x + self.out(attended.transpose(1, 2).reshape(x.shape))


model = nn.Sequential(*(Layer() for _ in range(6))).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
x = torch.randn(2, LENGTH, WIDTH, device="cuda")
for _ in range(150):
    optimizer.zero_grad()
    loss = (model(x) - x.roll(1, 1)).square().mean()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
