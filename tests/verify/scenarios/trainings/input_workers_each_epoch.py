"""Planted: every short epoch starts its workers anew, and each of them opens the data set first.

rule: loader-start, input-epoch-restart
"""

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Archive(Dataset):
    """Knows where each sample lies once the index has been read."""

    def __init__(self) -> None:
        self.index: dict[str, int] = {}

    def __len__(self) -> int:
        return 640

    def __getitem__(self, number: int) -> torch.Tensor:
        if not self.index:
            self.index = {f"sample-{at:07}": at for at in range(400_000)}  # planted
        return torch.full((64,), self.index[f"sample-{number:07}"] / 640)


def main() -> None:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Linear(64, 512), nn.ReLU(), nn.Linear(512, 64))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    loader = DataLoader(Archive(), batch_size=16, num_workers=2, shuffle=True)  # planted
    for _ in range(12):
        for batch in loader:
            loss = nn.functional.mse_loss(model(batch), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    print(f"loss {loss.item():.4f}")


if __name__ == "__main__":
    main()
