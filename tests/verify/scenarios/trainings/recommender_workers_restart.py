"""Planted: short epochs, and the workers start anew for each and open their index again.

rule: loader-start, input-epoch-restart
gain: 3.1
"""

import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Ratings(Dataset):
    def __init__(self):
        generator = torch.Generator().manual_seed(5)
        self.users = torch.randint(0, 2000, (6400,), generator=generator)
        self.items = torch.randint(0, 500, (6400,), generator=generator)
        self.stars = torch.rand(6400, generator=generator) * 5
        self.index = None

    def __len__(self):
        return len(self.users)

    def __getitem__(self, i):
        return self.users[i], self.items[i], self.stars[i]


def open_index(worker_id):
    """What each worker does first: read the index of the data from the disk."""
    time.sleep(0.4)


class Factors(nn.Module):
    def __init__(self, users, items, size=32):
        super().__init__()
        self.user = nn.Embedding(users, size)
        self.item = nn.Embedding(items, size)
        self.mlp = nn.Sequential(nn.Linear(2 * size, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, user, item):
        return self.mlp(torch.cat([self.user(user), self.item(item)], 1)).squeeze(1)


def run():
    torch.manual_seed(1)
    loader = DataLoader(  # planted
        Ratings(), batch_size=256, shuffle=True, num_workers=2, worker_init_fn=open_index
    )
    model = Factors(2000, 500)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for epoch in range(9):
        losses = []
        for user, item, stars in loader:  # planted
            loss = nn.functional.mse_loss(model(user, item), stars)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        print(f"epoch {epoch} rmse {(sum(losses) / len(losses)) ** 0.5:.4f}")


if __name__ == "__main__":
    run()
