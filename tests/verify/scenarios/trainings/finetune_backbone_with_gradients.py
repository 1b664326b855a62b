"""Planted: only the head is trained, but gradients of the whole backbone are computed.

rule: unused-gradients
gain: 1.74
"""

import torch
import torch.nn as nn


class Backbone(nn.Module):
    """Stands for a network with weights from elsewhere."""

    def __init__(self):
        super().__init__()
        channels = [3, 16, 32, 48]
        self.stages = nn.ModuleList(
            nn.Sequential(
                nn.Conv2d(inputs, outputs, 3, padding=1),
                nn.BatchNorm2d(outputs),
                nn.ReLU(),
                nn.MaxPool2d(2),
            )
            for inputs, outputs in zip(channels, channels[1:], strict=False)
        )

    def forward(self, x):
        for stage in self.stages:
            x = stage(x)
        return x.mean((2, 3))


class Finetuned(nn.Module):
    def __init__(self, backbone, classes):
        super().__init__()
        self.backbone = backbone.eval()
        self.head = nn.Linear(48, classes)

    def forward(self, x):
        return self.head(self.backbone(x))  # planted


def train(model, loader, epochs):
    optimizer = torch.optim.SGD(model.head.parameters(), lr=0.1)  # planted
    criterion = nn.CrossEntropyLoss()
    for epoch in range(epochs):
        for images, labels in loader:
            loss = criterion(model(images), labels)
            model.zero_grad()
            loss.backward()  # planted
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    loader = [(torch.rand(16, 3, 64, 64), torch.randint(0, 7, (16,))) for _ in range(25)]
    train(Finetuned(Backbone(), 7), loader, epochs=13)
