"""Planted: the loader is asked for a fresh iterator, with fresh workers, in every step.

rule: loader-start, input-epoch-restart
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    inputs = torch.randn(4096, 64)
    data = TensorDataset(inputs, inputs.sum(1))
    model = nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 1))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    loader = DataLoader(data, batch_size=64, shuffle=True, num_workers=2)
    for _ in range(120):
        features, target = next(iter(loader))  # planted
        loss = nn.functional.mse_loss(model(features).squeeze(1), target)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
