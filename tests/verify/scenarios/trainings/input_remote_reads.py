"""Planted: each sample takes a round trip to storage that is far away, stood for by a sleep.

rule: input-disk-bound, input-bound
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Bucket:
    """Objects on another machine: 12 ms for each, during which nothing computes."""

    def get(self, key: str) -> bytes:
        time.sleep(0.012)  # planted
        return key.encode().ljust(64, b"0")


class Objects(Dataset):
    def __init__(self, root: str) -> None:
        self.keys = [f"{root}/{number:06}.bin" for number in range(1600)]
        self.bucket = Bucket()

    def __len__(self) -> int:
        return len(self.keys)

    def __getitem__(self, index: int) -> torch.Tensor:
        data = self.bucket.get(self.keys[index])  # planted
        return torch.tensor(list(data), dtype=torch.float32) / 255


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 256), nn.ReLU(), nn.Linear(256, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    data = Objects("s3://training-data/objects")
    loader = DataLoader(data, batch_size=8, num_workers=2, shuffle=True, persistent_workers=True)
    for _ in range(2):
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
