"""Planted: the collate function pads sequences number by number, in Python.

rule: input-in-main-thread
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Signals(Dataset):
    def __init__(self, count: int) -> None:
        make = torch.Generator().manual_seed(1)
        lengths = torch.randint(200, 400, (count,), generator=make).tolist()
        self.signals = [torch.randn(length, generator=make) for length in lengths]

    def __len__(self) -> int:
        return len(self.signals)

    def __getitem__(self, index: int) -> torch.Tensor:
        return self.signals[index]


def pad(batch: list[torch.Tensor]) -> torch.Tensor:
    longest = max(len(signal) for signal in batch)
    padded = torch.zeros(len(batch), longest)
    for row, signal in enumerate(batch):
        for column in range(len(signal)):
            padded[row, column] = signal[column]  # planted
    return padded[:, :200]


torch.set_num_threads(1)
model = nn.Sequential(nn.Linear(200, 256), nn.Tanh(), nn.Linear(256, 200))
optimizer = torch.optim.AdamW(model.parameters())
loader = DataLoader(Signals(800), 8, collate_fn=pad)
for _ in range(3):
    for batch in loader:
        optimizer.zero_grad()
        loss = nn.functional.mse_loss(model(batch), batch)
        loss.backward()
        optimizer.step()
print("loss", round(loss.item(), 4))
