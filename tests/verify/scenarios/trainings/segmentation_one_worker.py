"""Planted: one worker reads from a slow share, where six would keep up.

rule: input-bound, input-worker-bound, input-disk-bound
gain: 1.29
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Slices(Dataset):
    """Scans on a network share: a read takes ten milliseconds, whoever asks."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __len__(self) -> int:
        return self.count

    def read(self, index: int) -> torch.Tensor:
        time.sleep(0.010)  # planted
        return torch.full((1, 48, 48), index / self.count)

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        image = self.read(index)
        mask = (image > 0.5).long().squeeze(0)
        return image, mask


def double_conv(inputs: int, outputs: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Conv2d(inputs, outputs, 3, padding=1), nn.BatchNorm2d(outputs), nn.ReLU(inplace=True)
    )


class SmallUNet(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.enter = double_conv(1, 8)
        self.down = double_conv(8, 16)
        self.pool = nn.MaxPool2d(2)
        self.up = nn.Upsample(scale_factor=2)
        self.leave = double_conv(24, 8)
        self.head = nn.Conv2d(8, 2, 1)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        wide = self.enter(x)
        deep = self.up(self.down(self.pool(wide)))
        return self.head(self.leave(torch.cat([wide, deep], dim=1)))


class Trainer:
    def __init__(self) -> None:
        self.model = SmallUNet()
        self.loader = DataLoader(  # planted
            Slices(400), batch_size=8, num_workers=1, persistent_workers=True
        )
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.criterion = nn.CrossEntropyLoss()

    def fit(self, epochs: int) -> None:
        for epoch in range(epochs):
            print(f"epoch {epoch}: {self.epoch():.4f}")

    def epoch(self) -> float:
        total = 0.0
        for image, mask in self.loader:
            loss = self.criterion(self.model(image), mask)
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
            total += loss.item()
        return total / len(self.loader)


if __name__ == "__main__":
    torch.manual_seed(0)
    Trainer().fit(2)
