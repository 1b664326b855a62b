"""Planted: a confusion matrix is counted prediction by prediction in every step.

rule: python-bound, loop-of-indexing
gain: 1.49
"""

import torch
import torch.nn as nn
import torch.nn.functional as F

CLASSES = 10


class Metrics:
    def __init__(self):
        self.matrix = [[0] * CLASSES for _ in range(CLASSES)]
        self.top3 = 0
        self.seen = 0

    def update(self, logits, labels):
        for i in range(len(labels)):
            row = logits[i]
            predicted = int(row.argmax().item())  # planted
            self.matrix[int(labels[i].item())][predicted] += 1  # planted
            best = sorted(range(CLASSES), key=lambda c: row[c].item())[-3:]  # planted
            self.top3 += labels[i].item() in best  # planted
            self.seen += 1

    def accuracy(self):
        return sum(self.matrix[c][c] for c in range(CLASSES)) / self.seen


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 8, 3, 1)
        self.conv2 = nn.Conv2d(8, 16, 3, 1)
        self.fc1 = nn.Linear(16 * 6 * 6, 64)
        self.fc2 = nn.Linear(64, CLASSES)

    def forward(self, x):
        x = F.relu(self.conv1(x))
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(torch.flatten(x, 1))))


def train(model, images, labels, optimizer, epoch):
    model.train()
    metrics = Metrics()
    order = torch.randperm(len(images))
    for batch in order.split(64):
        optimizer.zero_grad()
        logits = model(images[batch])
        loss = F.cross_entropy(logits, labels[batch])
        loss.backward()
        optimizer.step()
        metrics.update(logits.detach(), labels[batch])  # planted
    print(f"Train epoch {epoch}: loss {loss.item():.4f} accuracy {metrics.accuracy():.3f}")


def main():
    torch.manual_seed(1)
    images = torch.rand(64 * 60, 1, 16, 16)
    labels = torch.randint(0, CLASSES, (len(images),))
    model = Net()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    for epoch in range(1, 25):
        train(model, images, labels, optimizer, epoch)


main()
