"""Planted: two workers that are too slow for the model.

rule: input-disk-bound, input-bound
gain: 2.2
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SlowNumbers(Dataset):
    def __len__(self) -> int:
        return 960

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(0.004)  # planted
        features = torch.full((64,), index / 960)
        return features, features.sum()


if __name__ == "__main__":
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
    loader = DataLoader(  # planted
        SlowNumbers(), batch_size=8, num_workers=2, persistent_workers=True
    )
    for epoch in range(2):
        for features, target in loader:
            loss = nn.functional.mse_loss(model(features).squeeze(1), target)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch} loss {loss.item():.9f}", flush=True)
