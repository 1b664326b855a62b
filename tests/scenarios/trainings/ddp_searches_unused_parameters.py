"""Planted: DDP looks for unused parameters in every step, and all are used.

rule: unused-parameters-search, library-says
setup: torchrun --nproc-per-node 2
"""

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP


class Deep(nn.Module):
    def __init__(self, depth):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(32, 32) for _ in range(depth))

    def forward(self, x):
        for layer in self.layers:
            x = x + torch.tanh(layer(x))
        return x


def main():
    dist.init_process_group("gloo")
    torch.set_num_threads(1)
    torch.manual_seed(dist.get_rank())
    model = DDP(Deep(150), find_unused_parameters=True)  # planted
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    data = torch.randn(150, 8, 32)
    for step, batch in enumerate(data):
        loss = (model(batch) - batch).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 50 == 0 and dist.get_rank() == 0:
            print(f"step {step}: {loss.item():.4f}")
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
