"""Planted: the second rank computes extra statistics before each step, and the first waits for it.

rule: straggler
gain: 2.9
setup: torchrun --nproc-per-node 2
"""

import os

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel


def statistics(batch):
    """Quantiles of each feature, the slow way."""
    found = []
    for column in batch.T:
        values = sorted(column.tolist())  # planted
        found.append([values[int(q * (len(values) - 1))] for q in (0.1, 0.5, 0.9)])
    return found


def main():
    dist.init_process_group("gloo")
    rank = int(os.environ["RANK"])
    torch.set_num_threads(1)
    torch.manual_seed(rank)
    model = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.Linear(256, 128))
    model = DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(60, 256, 128)
    for epoch in range(20):
        for batch in data:
            if rank == 1:
                statistics(batch)  # planted
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        if rank == 0 and epoch % 5 == 4:
            print(f"epoch {epoch}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
