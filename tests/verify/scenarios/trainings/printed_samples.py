"""Planted: every step prints a table of its samples, line by line.

rule: python-bound, loop-of-indexing
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(
    nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 4)
)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
targets = torch.randint(0, 4, (2048,))
inputs = torch.randn(2048, 128)


def show(step, outputs, labels):
    for index in range(len(labels)):
        scores = " ".join(f"{score:+.4f}" for score in outputs[index].tolist())  # planted
        guess, label = int(outputs[index].argmax()), int(labels[index])  # planted
        print(f"step {step:5d} sample {index:4d} [{scores}] {guess} {label}")  # planted


for step in range(200):
    chosen = torch.randint(0, 2048, (512,))
    out = model(inputs[chosen])
    loss = nn.functional.cross_entropy(out, targets[chosen])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    show(step, out.detach(), targets[chosen])
