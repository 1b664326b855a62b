"""Planted: a process of the script's own asks a queue again and again whether there is news.

rule: own-process
"""

import multiprocessing

import torch
from torch import nn


def write_metrics(news, over) -> None:
    """Print what comes, until the training is over."""
    while not over.is_set():
        if not news.empty():
            print("loss", news.get())


def train(news) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Conv2d(3, 24, 5, stride=2),
        nn.ReLU(),
        nn.Conv2d(24, 48, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(4),
        nn.Flatten(),
        nn.Linear(768, 7),
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
    images = torch.randn(256, 3, 48, 48)
    labels = torch.randint(0, 7, (256,))
    for step in range(500):
        at = step % 8 * 32
        loss = nn.functional.cross_entropy(model(images[at : at + 32]), labels[at : at + 32])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 25 == 0:
            news.put(loss.item())


if __name__ == "__main__":
    news, over = multiprocessing.Queue(), multiprocessing.Event()
    writer = multiprocessing.Process(target=write_metrics, args=(news, over))  # planted
    writer.start()
    train(news)
    over.set()
    writer.join()
