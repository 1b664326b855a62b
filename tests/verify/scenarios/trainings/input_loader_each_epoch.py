"""Planted: a function makes the loader anew for every short epoch, whose workers cannot stay.

rule: loader-start, input-epoch-restart
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, Subset


class Waves(Dataset):
    def __len__(self) -> int:
        return 2048

    def __getitem__(self, index: int) -> torch.Tensor:
        return torch.sin(torch.arange(64) * (index + 1) / 100)


def loader_of(data: Dataset, fold: int) -> DataLoader:
    chosen = Subset(data, range(fold % 4, 2048, 4))
    return DataLoader(  # planted
        chosen, batch_size=32, shuffle=True, num_workers=2, persistent_workers=True
    )


def train(model: nn.Module, optimizer: torch.optim.Optimizer, loader: DataLoader) -> float:
    for waves in loader:  # planted
        loss = nn.functional.mse_loss(model(waves), waves)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return loss.item()


if __name__ == "__main__":
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    waves = Waves()
    for epoch in range(40):
        loss = train(model, optimizer, loader_of(waves, epoch))
    print(f"loss {loss:.4f}")
