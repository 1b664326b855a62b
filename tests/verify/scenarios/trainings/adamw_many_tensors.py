"""Planted: AdamW goes through the 200 tensors of a deep network one at a time.

rule: optimizer-single-tensor
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
width, depth = 192, 50
layers: list[nn.Module] = [nn.Linear(64, width)]
for _ in range(depth):
    layers += [nn.LayerNorm(width), nn.Linear(width, width), nn.GELU()]
model = nn.Sequential(*layers, nn.Linear(width, 1)).to(device)
# fixed: optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, foreach=False)  # planted

for _ in range(80 if device == "cuda" else 150):
    batch = torch.randn(16, 64, device=device)
    loss = nn.functional.mse_loss(model(batch).squeeze(1), batch.sum(1))
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
