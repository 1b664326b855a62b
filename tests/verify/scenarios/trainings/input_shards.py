"""Planted: workers read shards of many batches, and the queue behind them is too short.

rule: input-bursty, input-uneven, input-disk-bound
"""

import time
from collections.abc import Iterator

import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

SHARD = 160


class Shards(IterableDataset):
    def __iter__(self) -> Iterator[torch.Tensor]:
        info = get_worker_info()
        first, every = (info.id, info.num_workers) if info else (0, 1)
        for number in range(first, 40, every):
            yield from self.read(number)

    def read(self, number: int) -> torch.Tensor:
        time.sleep(0.5)  # planted
        return torch.rand(SHARD, 128, generator=torch.Generator().manual_seed(number))


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inner = [layer for _ in range(2) for layer in (nn.Linear(1024, 1024), nn.ReLU())]
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), *inner, nn.Linear(1024, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Shards(), batch_size=16, num_workers=2, prefetch_factor=2)  # planted
    for batch in loader:
        loss = nn.functional.mse_loss(model(batch), batch)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
