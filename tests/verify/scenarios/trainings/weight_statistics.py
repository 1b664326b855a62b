"""Planted: mean and norm of each weight are summed up number by number in Python, every step.

rule: python-bound
"""

import torch
from torch import nn


class Classifier(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(3, 32, 3, padding=1), nn.ReLU(), nn.Conv2d(32, 32, 3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(32 * 15 * 15, 10)

    def forward(self, images: torch.Tensor) -> torch.Tensor:
        return self.head(self.layers(images).flatten(1))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = Classifier()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01, momentum=0.9)
    history = []
    for _ in range(150):
        images = torch.randn(8, 3, 32, 32)
        labels = torch.randint(0, 10, (8,))
        optimizer.zero_grad()
        loss = nn.functional.cross_entropy(net(images), labels)
        loss.backward()
        optimizer.step()
        norms = {}
        for name, weight in net.named_parameters():
            total = 0.0
            for value in weight.detach().flatten().tolist():  # planted
                total += value * value  # planted
            norms[name] = total**0.5
        history.append(norms)


main()
