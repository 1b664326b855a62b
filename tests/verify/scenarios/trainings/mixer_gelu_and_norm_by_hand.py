"""Planted: activation and normalisation are spelled out as chains of element-wise operations.

rule: memory-bound-elementwise
gain: 1.53
"""

import torch
from torch import nn


def gelu(x):
    inner = 0.7978845608 * (x + 0.044715 * torch.pow(x, 3))  # planted
    return 0.5 * x * (1.0 + torch.tanh(inner))  # planted


class LayerNorm(nn.Module):
    def __init__(self, width, eps=1e-5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(width))
        self.bias = nn.Parameter(torch.zeros(width))
        self.eps = eps

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)  # planted
        variance = ((x - mean) ** 2).mean(-1, keepdim=True)  # planted
        normal = (x - mean) / torch.sqrt(variance + self.eps)  # planted
        return self.weight * normal + self.bias  # planted


class MixerBlock(nn.Module):
    def __init__(self, patches, width):
        super().__init__()
        self.norm1 = LayerNorm(width)
        self.across = nn.Sequential(nn.Linear(patches, patches))
        self.norm2 = LayerNorm(width)
        self.up = nn.Linear(width, 2 * width)
        self.down = nn.Linear(2 * width, width)

    def forward(self, x):
        x = x + gelu(self.across(self.norm1(x).transpose(1, 2))).transpose(1, 2)
        return x + self.down(gelu(self.up(self.norm2(x))))


class Mixer(nn.Module):
    def __init__(self, patches=64, width=48, depth=3):
        super().__init__()
        self.patch = nn.Linear(48, width)
        self.blocks = nn.Sequential(*[MixerBlock(patches, width) for _ in range(depth)])
        self.head = nn.Linear(width, 10)

    def forward(self, x):
        return self.head(self.blocks(self.patch(x)).mean(1))


torch.manual_seed(0)
model = Mixer()
optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
images, labels = torch.rand(64 * 20, 64, 48), torch.randint(0, 10, (1280,))
for epoch in range(10):
    for x, y in zip(images.split(64), labels.split(64), strict=True):
        loss = nn.functional.cross_entropy(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print("epoch", epoch, "loss", f"{loss.item():.4f}")
