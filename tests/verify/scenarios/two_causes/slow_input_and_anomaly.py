"""Planted: batches are read in the main thread, and anomaly detection was left on.

fixes: loader-workers, anomaly-off
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

torch.manual_seed(0)
torch.set_num_threads(1)
# fixed:
torch.autograd.set_detect_anomaly(True)


class Remote(Dataset):
    def __len__(self) -> int:
        return 4096

    def __getitem__(self, index: int) -> tuple[torch.Tensor, torch.Tensor]:
        time.sleep(0.0005)
        return torch.full((64,), index / 4096), torch.tensor(index % 8)


class Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.norm, self.inner = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + torch.relu(self.inner(self.norm(x)))


if __name__ == "__main__":
    model = nn.Sequential(*(Block(64) for _ in range(12)), nn.Linear(64, 8))
    optimizer = torch.optim.AdamW(model.parameters(), fused=True)
    # fixed: loader = DataLoader(Remote(), batch_size=16, shuffle=True, num_workers=2)
    loader = DataLoader(Remote(), batch_size=16, shuffle=True)
    for _ in range(10):
        for inputs, labels in loader:
            loss = nn.functional.cross_entropy(model(inputs), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
