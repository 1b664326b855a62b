"""Trains one rank after another in children, and kills each at a random moment.

``python killed.py SEED MOMENTS`` prints ``RANK STEPS`` for each: how many it had finished."""

from __future__ import annotations

import importlib
import os
import random
import signal
import sys
import time

import torch
from shared_number import SharedNumber
from torch import nn

DEVICE = os.environ.get("TRAIN_ON", "cpu")
FEWEST = 2
"""Steps that each finishes."""

LONGEST = 0.4
"""Seconds that a rank lives at most: long enough for a window."""


def train(finished: SharedNumber, rank: int, ranks: int) -> None:
    os.environ.update(RANK=str(rank), WORLD_SIZE=str(ranks))
    model = nn.Linear(16, 16).to(DEVICE)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    steps = 0
    while True:
        optimizer.zero_grad()
        model(torch.ones(4, 16).to(DEVICE)).sum().backward()
        optimizer.step()
        steps += 1
        finished.store(steps)


def main() -> None:
    torch.set_num_threads(1)
    importlib.import_module("torch._dynamo")
    seed, ranks = map(int, sys.argv[1:])
    moments = random.Random(seed)  # noqa: S311 - moments need no secrecy
    for rank in range(ranks):
        finished = SharedNumber()
        child = os.fork()
        if child == 0:
            train(finished, rank, ranks)
        while finished.read() < FEWEST:
            time.sleep(0.001)
        time.sleep(LONGEST * moments.random())
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        print(rank, finished.read(), flush=True)


if __name__ == "__main__":
    main()
