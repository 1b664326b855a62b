"""A model of eight modules, and ways to compile it. It imports torch: import this late."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner = nn.Linear(8, 8)
        self.act = nn.ReLU()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        out: torch.Tensor = self.act(self.inner(x))
        return out


def plainly(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = layer(x)
    return out


class Model(nn.Module):
    """Calls its blocks by ``way``; its head stands at two places."""

    def __init__(self, way: Callable[..., torch.Tensor] = plainly) -> None:
        super().__init__()
        self.embed = nn.Linear(4, 8)
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 2)
        self.tied = self.head
        self.way = way

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.embed(x)
        x = self.way(self.layers[0], x)
        x = self.way(self.layers[1], x)
        out: torch.Tensor = self.tied(x)
        return out


class Seen(TorchDispatchMode):
    """The operators that pass through the dispatcher."""

    def __init__(self) -> None:
        super().__init__()
        self.operators: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.operators.append(str(func))
        return func(*args, **(kwargs or {}))


def compiled(way: str) -> tuple[Model, Callable[..., torch.Tensor]]:
    model = Model()
    if way == "whole":
        return model, torch.compile(model, backend="eager")
    if way == "in place":
        model.compile(backend="eager")
    elif way == "blocks":
        for layer in model.layers:
            layer.compile(backend="eager")
    elif way == "broken":

        def broken(layer: nn.Module, x: torch.Tensor) -> torch.Tensor:
            torch._dynamo.graph_break()
            return plainly(layer, x)

        model.way = broken
        return model, torch.compile(model, backend="eager")
    else:
        return model, torch.compile(lambda x: plainly(model, x) * 2, backend="eager")
    return model, model
