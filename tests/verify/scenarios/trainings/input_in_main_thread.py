"""Planted: each batch is fetched in the main thread and takes several times the model's time.

rule: input-in-main-thread
gain: 12.1
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class SlowNumbers(Dataset):
    def __len__(self) -> int:
        return 640

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(0.002)  # planted
        generator = torch.Generator().manual_seed(index)
        features = torch.rand(64, generator=generator)
        return features, features.sum()


torch.manual_seed(0)
device = "cuda" if torch.cuda.is_available() else "cpu"
model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 1)).to(device)
optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)
# fixed: loader = DataLoader(SlowNumbers(), batch_size=8, shuffle=True, num_workers=8,
# fixed:     persistent_workers=True)
loader = DataLoader(SlowNumbers(), batch_size=8, shuffle=True)  # planted
for epoch in range(2):
    for features, target in loader:
        features, target = features.to(device), target.to(device)
        loss = nn.functional.mse_loss(model(features).squeeze(1), target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"epoch {epoch} loss {loss.item():.9f}", flush=True)
