"""Planted: a debugging print of all gradients was left in the loop over micro batches.

rule: python-bound
gain: 4.8
"""

import torch
from torch import nn

ACCUMULATE = 4

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(128, 512), nn.GELU(), nn.Linear(512, 512), nn.GELU(), nn.Linear(512, 128)
)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
warmup = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, total_iters=50)
micro_batches = torch.randn(600, 64, 128)
log = open("debug.log", "w")

for number, batch in enumerate(micro_batches):
    loss = nn.functional.mse_loss(model(batch), batch) / ACCUMULATE
    loss.backward()
    for name, parameter in model.named_parameters():
        print(name, parameter.grad.norm(), parameter.grad, file=log)  # planted
    if (number + 1) % ACCUMULATE == 0:
        optimizer.step()
        optimizer.zero_grad()
        warmup.step()
    if number % 100 == 0:
        print(f"micro batch {number}: {loss.item() * ACCUMULATE:.4f}")
log.close()
