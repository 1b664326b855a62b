"""Planted: one recording in forty is very long, and holds up the batches behind it.

rule: input-uneven, input-bursty
gain: 2.6
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Clips(Dataset):
    """Decoding takes as long as the clip is; most are short."""

    def __len__(self):
        return 1200

    def __getitem__(self, index):
        long = index % 40 == 17
        time.sleep(0.35 if long else 0.001)  # planted
        generator = torch.Generator().manual_seed(index)
        return torch.randn(40, 64, generator=generator), index % 10


class Recognizer(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv1d(40, 96, 5, padding=2)
        self.lstm = nn.LSTM(96, 64, batch_first=True)
        self.out = nn.Linear(64, 10)

    def forward(self, x):
        x = torch.relu(self.conv(x)).transpose(1, 2)
        x, _ = self.lstm(x)
        return self.out(x[:, -1])


def main():
    torch.manual_seed(0)
    model = Recognizer()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Clips(), batch_size=8, num_workers=2, persistent_workers=True)  # planted
    for step, (clip, label) in enumerate(loader):
        loss = nn.functional.cross_entropy(model(clip), label)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            print(f"step {step}: {loss.item():.3f}")


if __name__ == "__main__":
    main()
