"""Planted: the whole validation set is evaluated after every tenth step.

rule: evaluation
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10)
)
optimizer = torch.optim.Adam(model.parameters())
held_out = DataLoader(
    TensorDataset(torch.randn(2048, 256), torch.randint(0, 10, (2048,))), batch_size=128
)


@torch.no_grad()
def validate() -> float:
    model.eval()
    right = 0
    for images, labels in held_out:  # planted
        right += int((model(images).argmax(1) == labels).sum())  # planted
    model.train()
    return right / 2048


for step in range(250):
    images, labels = torch.randn(128, 256), torch.randint(0, 10, (128,))
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 10 == 9:
        validate()
