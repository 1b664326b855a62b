"""A small image classifier whose data loader is slower than its model.

Each picture is fetched from storage that answers after two milliseconds, then blurred and
normalised, all in the main thread: the model waits for most of every step. Nothing here knows of
perftui.
"""

import os
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

STORAGE_LATENCY = 0.002  # seconds for one picture, as from a busy network disk


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Generated pictures of ten kinds of stripes, the kind being the label."""

    def __init__(self, count: int) -> None:
        self.count = count
        self.grid = torch.linspace(0, 3.14, 48)

    def __len__(self) -> int:
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        time.sleep(STORAGE_LATENCY)
        label = index % 10
        rows = torch.sin((label + 1) * self.grid)[:, None]
        columns = torch.cos((label + 2) * self.grid)[None, :]
        noise = torch.Generator().manual_seed(index)
        picture = (rows * columns).repeat(3, 1, 1) + torch.randn(3, 48, 48, generator=noise)
        for _ in range(4):
            picture = (picture + picture.roll(1, 1) + picture.roll(1, 2)) / 3
        return (picture - picture.mean()) / (picture.std() + 1e-6), label


def build_model() -> nn.Module:
    """Three convolutions and a linear layer."""
    return nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(32, 64, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(64, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 10),
    )


def train(epochs: int = 6, batch_size: int = 16) -> None:
    """Train, and print the loss every 20 steps."""
    torch.manual_seed(0)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // 2))  # the rest is for loading
    device = "cuda" if torch.cuda.is_available() else "cpu"
    model = build_model().to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
    criterion = nn.CrossEntropyLoss()
    loader = DataLoader(Pictures(2000), batch_size=batch_size, shuffle=True)
    for epoch in range(epochs):
        for step, (pictures, labels) in enumerate(loader):
            pictures, labels = pictures.to(device), labels.to(device)
            loss = criterion(model(pictures), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            if step % 20 == 0:
                print(f"epoch {epoch} step {step:3d} loss {loss.item():.4f}", flush=True)
    print("done")


if __name__ == "__main__":
    train()
