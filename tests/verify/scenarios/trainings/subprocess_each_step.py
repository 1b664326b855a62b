"""Planted: a program is started in every step to ask for the state of the machine.

rule: python-bound
"""

import subprocess
import sys

import torch
from torch import nn


def machine_state() -> str:
    command = [sys.executable, "-S", "-c", "import os; print(os.getloadavg())"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)  # planted
    return done.stdout.strip()


torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.TransformerEncoderLayer(64, 4, dim_feedforward=128, batch_first=True)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
states = []
for _ in range(150):
    tokens = torch.randn(8, 32, 64)
    loss = (model(tokens) - tokens).pow(2).mean()
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    states.append(machine_state())
