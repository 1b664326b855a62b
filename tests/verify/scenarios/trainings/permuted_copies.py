"""Planted: images are turned to channels-last and back by copies around every layer.

rule: layout-copies
"""

import torch
from torch import nn

torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
rows = 1024 if device == "cuda" else 16


class ChannelNorm(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.depthwise = nn.Conv2d(channels, channels, 1)
        self.scale = nn.Parameter(torch.ones(channels))
        self.shift = nn.Parameter(torch.zeros(channels))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        # fixed:
        y = x.permute(0, 2, 3, 1).contiguous()  # planted
        # fixed: y = torch.relu(x * self.scale.view(-1, 1, 1))
        y = torch.relu(y * self.scale)
        # fixed:
        y = y.permute(0, 3, 1, 2).contiguous()  # planted
        y = self.depthwise(y)
        # fixed:
        y = y.permute(0, 2, 3, 1).contiguous()  # planted
        # fixed: return y + self.shift.view(-1, 1, 1)
        y = y + self.shift
        # fixed:
        return y.permute(0, 3, 1, 2).contiguous()  # planted


model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), *(ChannelNorm(16) for _ in range(8)),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10),
).to(device)  # fmt: skip
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images = torch.rand(rows, 3, 64, 64, device=device)
labels = torch.randint(0, 10, (rows,), device=device)
for _ in range(150 if device == "cuda" else 50):
    loss = nn.functional.cross_entropy(model(images), labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
