"""Planted: averages of the weights are updated one tensor at a time after each step.

rule: per-parameter-loop
"""

import copy

import torch
from torch import nn

torch.manual_seed(0)
blocks = [nn.Sequential(nn.Linear(128, 128), nn.LayerNorm(128), nn.ReLU()) for _ in range(60)]
model = nn.Sequential(nn.Linear(32, 128), *blocks, nn.Linear(128, 10))
teacher = copy.deepcopy(model)
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, foreach=True)


def update_teacher(student: nn.Module, average: nn.Module, decay: float) -> None:
    with torch.no_grad():
        averaged = dict(average.named_parameters())
        for name, value in student.named_parameters():  # planted
            old = averaged[name]
            old.copy_(decay * old + (1 - decay) * value)  # planted


images, labels = torch.randn(512, 32), torch.randint(0, 10, (512,))
for step in range(300):
    at = step * 8 % 504
    loss = nn.functional.cross_entropy(model(images[at : at + 8]), labels[at : at + 8])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update_teacher(model, teacher, 0.999)
print(f"loss {loss.item():.6f}", flush=True)
