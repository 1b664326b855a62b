"""Planted: one worker decodes images more slowly than the model trains on them.

rule: input-worker-bound
"""

import io

import numpy as np
import torch
from PIL import Image
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Photos(Dataset):
    """Images in memory as JPEG, as they come out of an archive."""

    def __init__(self, count: int) -> None:
        draw = np.random.default_rng(0)
        self.files = []
        for _ in range(count):
            pixels = draw.integers(0, 255, (20, 20, 3), dtype=np.uint8)
            file = io.BytesIO()
            Image.fromarray(pixels).resize((256, 256)).save(file, "JPEG")
            self.files.append(file.getvalue())

    def __len__(self) -> int:
        return 1600

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        image = Image.open(io.BytesIO(self.files[index % len(self.files)]))
        image = image.rotate(index % 20, resample=Image.Resampling.BICUBIC)  # planted
        small = image.resize((32, 32))
        return torch.from_numpy(np.array(small)).permute(2, 0, 1).float() / 255, index % 10


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    net = nn.Sequential(nn.Conv2d(3, 16, 3), nn.ReLU(), nn.Flatten(), nn.Linear(14400, 10))
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    loader = DataLoader(Photos(20), batch_size=16, num_workers=1, persistent_workers=True)
    for _ in range(2):
        for images, labels in loader:
            loss = nn.functional.cross_entropy(net(images), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
