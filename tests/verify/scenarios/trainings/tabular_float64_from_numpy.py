"""Planted: the table comes from NumPy as float64, and the model was made double to fit.

rule: float64
gain: 1.94
"""

import numpy as np
import torch
from torch import nn


def load_table(rows, columns):
    rng = np.random.default_rng(0)
    table = rng.normal(size=(rows, columns))
    weights = rng.normal(size=columns)
    return table, table @ weights / np.sqrt(columns)


def standardise(table):
    return (table - table.mean(axis=0)) / table.std(axis=0)


table, target = load_table(128 * 40, 256)
x = torch.from_numpy(standardise(table))  # planted
y = torch.from_numpy(target).unsqueeze(1)  # planted

torch.manual_seed(0)
model = nn.Sequential(
    nn.Linear(256, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU(), nn.Linear(1024, 1)
).double()  # planted
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
loss_function = nn.MSELoss()

for epoch in range(13):
    shuffled = torch.randperm(len(x))
    for start in range(0, len(x), 128):
        batch = shuffled[start : start + 128]
        optimizer.zero_grad()
        loss = loss_function(model(x[batch]), y[batch])  # planted
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch}: {loss.item():.5f}")
