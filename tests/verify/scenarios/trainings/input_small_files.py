"""Planted: thousands of small files, each opened, read past the page cache and closed.

rule: input-disk-bound, input-bound
"""

import mmap
import os
import tempfile
from pathlib import Path

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

SIZE = 4096


def read(path: str) -> bytes:
    """What the file holds, from the disk, where the file system can be read directly."""
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECT)
    except OSError:
        return Path(path).read_bytes()
    with mmap.mmap(-1, SIZE) as aligned:
        os.readv(file, [aligned])  # planted
        os.close(file)
        return aligned.read(SIZE)


class Patches(Dataset):
    def __init__(self, root: str, parts: int = 12) -> None:
        self.root, self.parts = root, parts

    def __len__(self) -> int:
        return 1600

    def __getitem__(self, index: int) -> torch.Tensor:
        begin = index * self.parts
        files = [
            f"{self.root}/{number % 4000:04}.raw" for number in range(begin, begin + self.parts)
        ]
        whole = b"".join(read(file) for file in files)  # planted
        return torch.frombuffer(bytearray(whole), dtype=torch.uint8)[::256].float() / 255


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as root:
        for number in range(4000):
            Path(root, f"{number:04}.raw").write_bytes(os.urandom(SIZE))
        os.sync()
        torch.set_num_threads(1)
        data = Patches(root)
        model = nn.Sequential(nn.Linear(192, 128), nn.ReLU(), nn.Linear(128, 192))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        loader = DataLoader(data, batch_size=16, num_workers=1, persistent_workers=True)
        for _ in range(3):
            for batch in loader:
                loss = nn.functional.mse_loss(model(batch), batch)
                optimizer.zero_grad()
                loss.backward()
                optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
