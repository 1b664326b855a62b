"""Planted: the allocator's cache is emptied after every step, so the next one allocates anew.

rule: allocator-churn
"""

import torch
from torch import nn

torch.manual_seed(0)
layers = [nn.Sequential(nn.Linear(2048, 2048), nn.GELU()) for _ in range(12)]
model = nn.Sequential(*layers, nn.Linear(2048, 1)).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
for _ in range(200):
    rows = torch.randn(2048, 2048, device="cuda")
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = (model(rows).squeeze(1) - rows.sum(1)).square().mean()
    loss.backward()
    optimizer.step()
    # fixed:
    torch.cuda.empty_cache()  # planted
print(f"loss {loss.item():.6f}", flush=True)
