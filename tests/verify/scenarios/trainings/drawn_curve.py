"""Planted: the loss curve is drawn anew into a picture, pixel by pixel, after every step.

rule: python-bound
"""

import tempfile
from pathlib import Path

import torch
from torch import nn

WIDTH, HEIGHT = 320, 120
PICTURE = Path(tempfile.mkdtemp()) / "loss.ppm"


class Plot:
    def __init__(self):
        self.values = []

    def add(self, value):
        self.values.append(value)
        self.render()

    def render(self):
        shown = self.values[-WIDTH:]
        low, high = min(shown), max(shown)
        span = (high - low) or 1.0
        pixels = []
        for row in range(HEIGHT):
            level = high - span * row / HEIGHT  # planted
            for column in range(WIDTH):  # planted
                inside = column < len(shown) and shown[column] >= level  # planted
                pixels.append((30, 90, 200) if inside else (255, 255, 255))  # planted
        body = bytes(channel for pixel in pixels for channel in pixel)  # planted
        PICTURE.write_bytes(f"P6 {WIDTH} {HEIGHT} 255\n".encode() + body)


torch.manual_seed(1)
torch.set_num_threads(1)
encoder = nn.LSTM(64, 128, batch_first=True)
head = nn.Linear(128, 5)
parameters = [*encoder.parameters(), *head.parameters()]
optimizer = torch.optim.RMSprop(parameters, lr=1e-3)
plot = Plot()
for _ in range(220):
    batch, label = torch.randn(16, 20, 64), torch.randint(0, 5, (16,))
    hidden, _ = encoder(batch)
    loss = nn.functional.cross_entropy(head(hidden[:, -1]), label)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    plot.add(loss.item())
