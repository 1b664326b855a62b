"""Two ranks on the CPU, the second with more to compute: the first waits for it in every step."""

from __future__ import annotations

import torch
from torch import distributed, nn
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, TensorDataset

STEPS, BATCH = 80, 32


def main() -> None:
    """Train on gloo, as ``torchrun --nproc-per-node 2`` starts it."""
    distributed.init_process_group("gloo")
    rank = distributed.get_rank()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    model = DistributedDataParallel(
        nn.Sequential(nn.Linear(256, 512), nn.ReLU(), nn.Linear(512, 10))
    )
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    loader = DataLoader(TensorDataset(torch.randn(STEPS * BATCH, 256)), BATCH, shuffle=True)
    for step, (pictures,) in enumerate(loader):
        repeated = pictures.repeat(1 + 24 * rank, 1)
        loss = model(repeated).pow(2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 20 == 0 and rank == 0:
            print(f"step {step:3d} loss {loss.item():.4f}", flush=True)
    distributed.destroy_process_group()


if __name__ == "__main__":
    main()
