"""Planted: all outputs so far are joined and averaged anew in every step, so steps grow.

rule: growing-steps
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 64))
optimizer = torch.optim.Adam(model.parameters())
seen = []
for _ in range(400):
    batch = torch.randn(128, 128)
    output = model(batch)
    loss = (output - batch[:, :64]).square().mean()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    seen.append(output.detach())
    everything = torch.cat(seen)  # planted
    mean, spread = everything.mean(0), everything.std(0)  # planted
    print(f"mean {mean.norm():.3f}, spread {spread.norm():.3f}")
