"""Planted: two workers hand over small batches of tensors that lie already tensors in memory.

rule: input-handover, input-bound
gain: 2.0
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    table = TensorDataset(torch.randn(6400, 64), torch.randint(0, 10, (6400,)))
    model = nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(  # planted
        table,
        batch_size=16,
        shuffle=True,
        num_workers=2,
        persistent_workers=True,  # planted
    )
    for epoch in range(6):
        for rows, labels in loader:  # planted
            loss = nn.functional.cross_entropy(model(rows), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        print(f"epoch {epoch}: {loss.item():.4f}")


if __name__ == "__main__":
    main()
