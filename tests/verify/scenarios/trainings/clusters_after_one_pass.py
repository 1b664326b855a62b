"""Planted: no step at all: the model is called once, then clusters are found number by number.

rule: largest-part, python-bound
"""

import random

import torch
from torch import nn

random.seed(0)
torch.manual_seed(0)
torch.set_num_threads(1)
encoder = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 16))
with torch.no_grad():
    points = encoder(torch.randn(1500, 64)).tolist()


def distance(one: list[float], other: list[float]) -> float:
    total = 0.0
    for left, right in zip(one, other, strict=True):  # planted
        total += (left - right) ** 2  # planted
    return total


centers = random.sample(points, 24)
for _ in range(70):
    groups: list[list[list[float]]] = [[] for _ in centers]
    for point in points:
        nearest = min(range(len(centers)), key=lambda at: distance(point, centers[at]))
        groups[nearest].append(point)
    centers = [
        [sum(column) / len(group) for column in zip(*group, strict=True)] if group else center
        for group, center in zip(groups, centers, strict=True)
    ]
