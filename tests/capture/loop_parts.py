"""What the loops of ``loops.py`` and ``framework_loops.py`` have in common."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

DEVICE = os.environ.get("TRAIN_ON", "cpu")
STEPS = 24
BATCH = 4
WIDTH = 16

Models = tuple[nn.Module, ...]


def network() -> nn.Module:
    model = nn.Sequential(nn.Linear(WIDTH, WIDTH), nn.Dropout(), nn.Linear(WIDTH, WIDTH))
    return model.to(DEVICE)


def loader(steps: int = STEPS, **options: Any) -> DataLoader[Any]:
    return DataLoader(TensorDataset(torch.randn(steps * BATCH, WIDTH)), BATCH, True, **options)


def optimizer_of(model: nn.Module) -> torch.optim.Optimizer:
    return torch.optim.SGD(model.parameters(), lr=0.05)


def loss_of(model: Any, x: torch.Tensor) -> torch.Tensor:
    loss: torch.Tensor = model(x.to(DEVICE)).pow(2).mean()
    return loss


def learn(model: Any, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    optimizer.zero_grad()
    loss_of(model, x).backward()
    optimizer.step()


def trained(
    batches: Iterable[Any], model: Any = None, optimizer: torch.optim.Optimizer | None = None
) -> Models:
    """What each batch has taught ``model``."""
    model = model or network()
    optimizer = optimizer or optimizer_of(model)
    for (x,) in batches:
        learn(model, optimizer, x)
    return (model,)
