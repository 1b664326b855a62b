"""Planted: a table of two hundred thousand rows gets a dense gradient for a few hundred of them.

rule: dense-gradients
gain: 22.6
"""

import torch
from torch import nn


class TwoTowers(nn.Module):
    def __init__(self, users, items, width):
        super().__init__()
        self.users = nn.Embedding(users, width)  # planted
        self.items = nn.Embedding(items, width)  # planted

    def forward(self, user, item):
        return (self.users(user) * self.items(item)).sum(1)  # planted


def interactions(count, users, items):
    generator = torch.Generator().manual_seed(9)
    user = torch.randint(0, users, (count,), generator=generator)
    item = torch.randint(0, items, (count,), generator=generator)
    return user, item, ((user + item) % 2).float()


def fit(model, data, batch, epochs):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)  # planted
    loss_function = nn.BCEWithLogitsLoss()
    for epoch in range(epochs):
        total = 0.0
        for user, item, clicked in zip(*(part.split(batch) for part in data), strict=True):
            optimizer.zero_grad()
            loss = loss_function(model(user, item), clicked)
            loss.backward()  # planted
            optimizer.step()  # planted
            total += loss.item()
        print(f"epoch {epoch}: {total * batch / len(data[0]):.4f}")


torch.manual_seed(0)
USERS, ITEMS = 150_000, 50_000
fit(TwoTowers(USERS, ITEMS, 32), interactions(512 * 40, USERS, ITEMS), batch=512, epochs=28)
