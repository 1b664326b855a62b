"""Eight small layers, fed from the memory of the host: ``python tiny.py SECONDS``."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

WIDTH = 256


def main(seconds: float) -> None:
    torch.manual_seed(0)
    layers = [nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.ReLU()) for _ in range(8)]
    model = nn.Sequential(*layers).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    rows = TensorDataset(torch.randn(6400, WIDTH))
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for (x,) in DataLoader(rows, 64):
            optimizer.zero_grad()
            model(x.cuda()).sum().backward()
            optimizer.step()


if __name__ == "__main__":
    main(float(sys.argv[1]))
