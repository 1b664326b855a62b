"""Planted: a compiled model with static shapes meets a new length in every step.

rule: recompiles
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
torch._dynamo.config.recompile_limit = 1000
torch._dynamo.config.accumulated_recompile_limit = 1000
net = nn.Sequential(*[part for _ in range(4) for part in (nn.Linear(128, 128), nn.GELU())])
model = torch.compile(net, backend="aot_eager", dynamic=False)  # planted
optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
for step in range(40):
    batch = torch.randn(16 + step, 128)
    loss = model(batch).square().mean()  # planted
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
