"""Planted: outputs go to NumPy in every step, where the best five of each row are counted.

rule: python-bound
"""

import numpy as np
import torch
from torch import nn

CLASSES = 20
rng = np.random.default_rng(0)
torch.manual_seed(0)
torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Dropout(0.1), nn.Linear(256, CLASSES))
optimizer = torch.optim.Adam(model.parameters())


def update(hits: np.ndarray, scores: torch.Tensor, labels: torch.Tensor) -> None:
    rows, truth = scores.detach().numpy(), labels.numpy()
    for at in range(len(truth)):
        best = np.argsort(rows[at])[-5:]  # planted
        if truth[at] in best:  # planted
            hits[truth[at]] += 1  # planted


features = torch.from_numpy(rng.standard_normal((1024, 64), dtype=np.float32))
labels = torch.from_numpy(rng.integers(0, CLASSES, 1024))
hits = np.zeros(CLASSES, dtype=np.int64)
for _ in range(300):
    scores = model(features)
    loss = nn.functional.cross_entropy(scores, labels)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    update(hits, scores, labels)
