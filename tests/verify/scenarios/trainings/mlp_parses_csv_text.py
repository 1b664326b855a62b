"""Planted: each row of a CSV file is parsed from text whenever it is asked for.

rule: input-in-main-thread
gain: 2.8
"""

import random

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class CsvRows(Dataset):
    def __init__(self, rows, columns):
        rng = random.Random(7)
        self.lines = [
            ",".join(f"{rng.gauss(0, 1):.6f}" for _ in range(columns)) for _ in range(rows)
        ]

    def __len__(self):
        return len(self.lines)

    def __getitem__(self, index):
        values = [float(value) for value in self.lines[index].split(",")]  # planted
        row = torch.tensor(values)  # planted
        return row[:-1], row[-1]


def build_model(inputs):
    return nn.Sequential(
        nn.Linear(inputs, 512),
        nn.ReLU(),
        nn.Dropout(0.1),
        nn.Linear(512, 256),
        nn.ReLU(),
        nn.Linear(256, 1),
    )


def train_epoch(model, loader, optimizer):
    model.train()
    total = 0.0
    for features, target in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(features).squeeze(1), target)
        loss.backward()
        optimizer.step()
        total += loss.item()
    return total / len(loader)


def main():
    torch.manual_seed(0)
    data = CsvRows(4096, 301)
    loader = DataLoader(data, batch_size=64, shuffle=True)  # planted
    model = build_model(300)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    for epoch in range(7):
        print(f"epoch {epoch}: loss {train_epoch(model, loader, optimizer):.4f}")


if __name__ == "__main__":
    main()
