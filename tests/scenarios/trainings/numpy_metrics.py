"""Planted: outputs go to NumPy in every step, where a confusion matrix is counted in a loop.

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


def update(matrix: np.ndarray, scores: torch.Tensor, labels: torch.Tensor) -> None:
    guesses = scores.detach().numpy().argmax(axis=1)
    truth = labels.numpy()
    for at in range(len(truth)):
        matrix[truth[at], guesses[at]] += 1  # planted
    precision = [matrix[k, k] / max(matrix[:, k].sum(), 1) for k in range(CLASSES)]  # planted
    np.mean(precision)


features = torch.from_numpy(rng.standard_normal((4096, 64), dtype=np.float32))
labels = torch.from_numpy(rng.integers(0, CLASSES, 4096))
matrix = np.zeros((CLASSES, CLASSES), dtype=np.int64)
for _ in range(400):
    scores = model(features[:256])
    loss = nn.functional.cross_entropy(scores, labels[:256])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        update(matrix, model(features), labels)
