"""Planted: one document in a hundred is fifty times as long, and holds up the batches behind it.

rule: input-uneven, input-bursty
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Documents(Dataset):
    def __len__(self) -> int:
        return 6400

    def __getitem__(self, index: int) -> torch.Tensor:
        length = 300_000 if index % 100 == 37 else 3_000
        counts = [0] * 128
        for at in range(length):  # planted
            counts[(at * 31 + index) & 127] += 1  # planted
        return torch.tensor(counts) / length


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(128, 1024), nn.ReLU(), nn.Linear(1024, 128))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loader = DataLoader(Documents(), batch_size=16, num_workers=2, persistent_workers=True)
    for _ in range(2):
        for batch in loader:
            for _ in range(4):
                loss = nn.functional.mse_loss(model(batch), batch)
                loss.backward()
            optimizer.step()
            optimizer.zero_grad()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
