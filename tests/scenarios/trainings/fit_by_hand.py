"""Planted: no model and no optimizer: a loop of its own that reads each number in Python.

rule: largest-part, python-bound
"""

import torch

torch.manual_seed(0)
torch.set_num_threads(1)
weights = torch.zeros(64)
inputs = torch.randn(4000, 64)
targets = inputs @ torch.arange(64.0)


def residual(row: int) -> float:
    total = 0.0
    for feature in range(64):
        total += float(inputs[row, feature]) * float(weights[feature])  # planted
    return total - float(targets[row])


for row in range(4000):
    weights -= 0.01 * residual(row) * inputs[row]
    if row % 500 == 0:
        print(row, residual(row))
