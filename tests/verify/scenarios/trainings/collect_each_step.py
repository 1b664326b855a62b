"""Planted: gc.collect() in every step, to free memory that reference counts free anyway.

rule: gc-pauses
"""

import gc

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Conv1d(16, 64, 5), nn.ReLU(), nn.Conv1d(64, 64, 5), nn.ReLU(), nn.AdaptiveAvgPool1d(1)
)
head = nn.Linear(64, 3)
optimizer = torch.optim.Adam([*model.parameters(), *head.parameters()])
index = [{"row": number, "tags": [str(number)]} for number in range(30_000)]
for _ in range(80):
    wave, label = torch.randn(16, 16, 256), torch.randint(0, 3, (16,))
    loss = nn.functional.cross_entropy(head(model(wave).squeeze(2)), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    del wave, label
    gc.collect()  # planted
