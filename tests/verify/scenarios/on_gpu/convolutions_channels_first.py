"""Planted: convolutions under autocast keep their channels first, and are converted each time.

rule: layout-conversion
"""

import torch
from torch import nn

torch.manual_seed(0)
torch.backends.cudnn.benchmark = True


class Block(nn.Module):
    def __init__(self, channels: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(channels, channels // 4, 1, bias=False), nn.BatchNorm2d(channels // 4),
            nn.ReLU(), nn.Conv2d(channels // 4, channels // 4, 3, padding=1, bias=False),
            nn.BatchNorm2d(channels // 4), nn.ReLU(),
            nn.Conv2d(channels // 4, channels, 1, bias=False), nn.BatchNorm2d(channels),
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(x + self.body(x))


model = nn.Sequential(  # planted
    nn.Conv2d(3, 256, 7, stride=4, padding=3), *(Block(256) for _ in range(4)),
    nn.Conv2d(256, 512, 3, stride=2, padding=1), *(Block(512) for _ in range(4)),
    nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(512, 100),
)  # fmt: skip
# fixed: model = model.cuda().to(memory_format=torch.channels_last)
model = model.cuda()  # planted
optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9, fused=True)
images = torch.rand(96, 3, 224, 224, device="cuda")
labels = torch.randint(0, 100, (96,), device="cuda")
for _ in range(120):
    optimizer.zero_grad()
    with torch.autocast("cuda", dtype=torch.bfloat16):
        # fixed: scores = model(images.to(memory_format=torch.channels_last))
        scores = model(images)  # planted
        loss = nn.functional.cross_entropy(scores, labels)
    loss.backward()  # planted
    optimizer.step()
print(f"loss {loss.item():.6f}", flush=True)
