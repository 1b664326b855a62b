"""Planted: a batch is a dictionary of two hundred small tensors, each handed over by itself.

rule: input-handover
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

COLUMNS = 200


class Table(Dataset):
    """Rows of a table, as dictionaries of its columns."""

    def __init__(self) -> None:
        self.values = torch.randn(3200, COLUMNS, generator=torch.Generator().manual_seed(0))

    def __len__(self) -> int:
        return len(self.values)

    def __getitems__(self, rows: list[int]) -> dict[str, torch.Tensor]:
        chosen = self.values[rows]
        return {f"column_{at}": chosen[:, at].clone() for at in range(COLUMNS)}  # planted


def unchanged(batch: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return batch


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(COLUMNS, 64), nn.ReLU(), nn.Linear(64, COLUMNS))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(  # planted
        Table(), batch_size=32, num_workers=1, collate_fn=unchanged, persistent_workers=True
    )
    for _ in range(2):
        for columns in loader:
            batch = torch.stack(list(columns.values()), dim=1)
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
