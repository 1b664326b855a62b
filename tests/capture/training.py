"""A small training that any launcher may start.

Prints a digest of weights and random state. With ``RANK`` in the environment it is one rank of a
job on gloo. As a module it can be spawned: ``python training.py spawn|fork``."""

from __future__ import annotations

import hashlib
import os
import socket
import sys
from typing import Any

import torch
from torch import distributed, multiprocessing, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

DEVICE = os.environ.get("TRAIN_ON", "cpu")
STEPS = 24
RANKS = 2


def train(rank: int, wrap: Any) -> str:
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    network = nn.Sequential(nn.Linear(16, 16), nn.Dropout(), nn.Linear(16, 16))
    network.to(DEVICE)
    model = wrap(network)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for (x,) in DataLoader(TensorDataset(torch.randn(STEPS * 4, 16)), 4, True):
        optimizer.zero_grad()
        model(x.to(DEVICE)).pow(2).mean().backward()
        optimizer.step()
    sha = hashlib.sha256(torch.get_rng_state().numpy().tobytes())
    for one in network.state_dict().values():
        sha.update(one.cpu().numpy().tobytes())
    return sha.hexdigest()[:16]


def train_rank(rank: int, port: int) -> None:
    """One rank; ``port`` is 0 where the launcher has said where to meet."""
    # A rank that aborts says in which of its threads.
    torch._C._set_print_stack_traces_on_fatal_signal(True)
    if port:
        os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    end = train(rank, DistributedDataParallel)
    ends: list[Any] = [None] * RANKS
    distributed.all_gather_object(ends, end)
    if rank == 0:
        print(*ends, flush=True)
    distributed.destroy_process_group()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


def main() -> None:
    if "RANK" in os.environ:
        train_rank(int(os.environ["RANK"]), 0)
    elif sys.argv[1:]:
        multiprocessing.start_processes(train_rank, (free_port(),), RANKS, start_method=sys.argv[1])
    else:
        print(train(0, lambda model: model), flush=True)


if __name__ == "__main__":
    main()
