"""Planted: mean and deviation of all gradients by Python's statistics, after every step.

rule: python-bound
gain: 1.67
"""

import statistics

import torch
from torch import nn


class Forecaster(nn.Module):
    def __init__(self, inputs=12, hidden=48):
        super().__init__()
        self.lstm = nn.LSTM(inputs, hidden, num_layers=2, batch_first=True)
        self.head = nn.Linear(hidden, 1)

    def forward(self, x):
        out, _ = self.lstm(x)
        return self.head(out[:, -1]).squeeze(-1)


class Trainer:
    def __init__(self, model, lr):
        self.model = model
        self.optimizer = torch.optim.SGD(model.parameters(), lr=lr)
        self.history = []

    def gradient_statistics(self):
        values = []
        for parameter in self.model.parameters():
            values += parameter.grad.flatten().tolist()
        mean = statistics.fmean(values)
        deviation = (sum((value - mean) ** 2 for value in values) / len(values)) ** 0.5  # planted
        return {"mean": mean, "std": deviation, "largest": max(map(abs, values))}

    def step(self, x, y):
        loss = nn.functional.mse_loss(self.model(x), y)
        self.optimizer.zero_grad()
        loss.backward()
        self.history.append({"loss": loss.item(), **self.gradient_statistics()})  # planted
        self.optimizer.step()

    def fit(self, x, y, epochs):
        for epoch in range(epochs):
            for inputs, targets in zip(x.split(32), y.split(32), strict=True):
                self.step(inputs, targets)
            print(f"epoch {epoch}: {self.history[-1]['loss']:.4f}")


if __name__ == "__main__":
    torch.manual_seed(0)
    series = torch.randn(32 * 50, 48, 12).cumsum(1)
    trainer = Trainer(Forecaster(), lr=0.01)
    trainer.fit(series, series[:, -1, 0] / 10, epochs=10)
