"""Planted: numpy computes texture features of each image in the training process.

rule: input-in-main-thread
"""

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)


class Scans(Dataset):
    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = np.random.default_rng(index).random((96, 96))
        gray = image - image.mean()
        spectrum = np.abs(np.fft.fft2(gray))  # planted
        shades = np.histogram(gray, bins=64)[0]  # planted
        features = np.concatenate((spectrum[:8, :8].ravel(), shades))
        return torch.from_numpy(features).float(), index % 10


model = nn.Sequential(nn.Linear(128, 512), nn.ReLU(), nn.Linear(512, 10))
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
for epoch in range(2):
    for features, labels in DataLoader(Scans(), batch_size=32, shuffle=True):
        loss = nn.functional.cross_entropy(model(features), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.4f}")
