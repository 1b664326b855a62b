"""ResNet-50 on made-up pictures: ``python pictures.py SECONDS WORKERS [item]``."""

import sys
import time

import torch
import torchvision
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset[tuple[torch.Tensor, int]]):
    """Noise, slow to make."""

    def __len__(self) -> int:
        return 4000

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        generator = torch.Generator().manual_seed(index)
        picture = torch.rand(3, 224, 224, generator=generator)
        return (picture - 0.5) / 0.25, index % 1000


def main(seconds: float, workers: int, *, prints_loss: bool) -> None:
    torch.manual_seed(0)
    model = torchvision.models.resnet50().cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    loss_of = nn.CrossEntropyLoss()
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        for batch in DataLoader(Pictures(), 64, num_workers=workers, pin_memory=True):
            pictures, labels = (one.cuda(non_blocking=True) for one in batch)
            optimizer.zero_grad()
            with torch.autocast("cuda", dtype=torch.bfloat16):
                loss = loss_of(model(pictures), labels)
            loss.backward()
            optimizer.step()
            if prints_loss:
                print(loss.item(), flush=True)
            if time.monotonic() > until:
                break


if __name__ == "__main__":
    main(float(sys.argv[1]), int(sys.argv[2]), prints_loss="item" in sys.argv)
