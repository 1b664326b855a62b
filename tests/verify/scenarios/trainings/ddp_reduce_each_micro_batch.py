"""Planted: gradients are reduced after each of eight micro-batches, not once for the step.

rule: reduce-each-micro-batch
setup: torchrun --nproc-per-node 2
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

dist.init_process_group("gloo")
torch.manual_seed(0)
torch.set_num_threads(1)
model = DistributedDataParallel(
    nn.Sequential(nn.Linear(512, 1024), nn.ReLU(), nn.Linear(1024, 512))
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4, fused=True)
accumulate = 8
for _ in range(30):
    optimizer.zero_grad()
    for _ in range(accumulate):
        batch = torch.randn(4, 512)
        loss = (model(batch) - batch).square().mean() / accumulate
        loss.backward()  # planted
    optimizer.step()
dist.destroy_process_group()
