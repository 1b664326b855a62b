"""Planted: four workers with four threads each resize images on fewer cores than that.

rule: workers-oversubscribed
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Frames(Dataset):
    def __len__(self) -> int:
        return 900

    def __getitem__(self, index: int) -> torch.Tensor:
        frame = torch.rand(1, 3, 320, 320, generator=torch.Generator().manual_seed(index))
        kernel = torch.full((3, 1, 9, 9), 1 / 81)
        frame = nn.functional.conv2d(frame, kernel, padding=4, groups=3)  # planted
        return nn.functional.interpolate(frame, 32)[0]


def use_all_cores(_: int) -> None:
    torch.set_num_threads(4)  # planted


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Flatten(), nn.Linear(3072, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(  # planted
        Frames(), 8, num_workers=4, worker_init_fn=use_all_cores, persistent_workers=True
    )
    for _ in range(2):
        for frames in loader:
            loss = model(frames).square().mean()
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
