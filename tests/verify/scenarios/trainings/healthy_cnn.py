"""Planted: nothing; a small network of convolutions on images in memory.

rule: healthy
"""

import torch
from torch import nn

torch.manual_seed(0)


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels),
            nn.ReLU(inplace=True), nn.Conv2d(channels, channels, 3, padding=1, bias=False),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


model = nn.Sequential(
    nn.Conv2d(3, 64, 3, stride=2, padding=1), Block(64),
    nn.Conv2d(64, 128, 3, stride=2, padding=1), Block(128),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(128, 10),
)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
images, labels = torch.rand(64, 3, 32, 32), torch.randint(0, 10, (64,))
for step in range(80):
    at = step % 2 * 32
    loss = nn.functional.cross_entropy(model(images[at : at + 32]), labels[at : at + 32])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
