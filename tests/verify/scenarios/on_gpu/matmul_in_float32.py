"""Planted: large matrix products in float32, without TF32.

rule: matmul-fp32
"""

import torch
from torch import nn

# fixed: torch.set_float32_matmul_precision("high")
# fixed: torch.manual_seed(0)
torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(4096, 4096), nn.GELU()) for _ in range(4)]  # planted
model = nn.Sequential(nn.Linear(64, 4096), *layers, nn.Linear(4096, 1)).cuda()  # planted
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for _ in range(80):
    rows = torch.randn(4096, 64, device="cuda")
    optimizer.zero_grad()
    loss = (model(rows).squeeze(1) - rows.sum(1)).square().mean()  # planted
    loss.backward()  # planted
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
