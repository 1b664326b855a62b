"""Planted: of four workers the one that has the large shard takes much longer than the others.

rule: input-uneven
"""

from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info


def parse(number: int, size: int) -> torch.Tensor:
    total = 0.0
    for at in range(size):  # planted
        total += (number * 7919 + at) % 13  # planted
    return torch.full((64,), total / (size * 13))


class Sharded(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        worker = info.id if info else 0
        size = 60_000 if worker == 2 else 3_000  # planted
        for number in range(700):
            yield parse(number, size)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    for batch in DataLoader(Sharded(), batch_size=4, num_workers=4):  # planted
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
