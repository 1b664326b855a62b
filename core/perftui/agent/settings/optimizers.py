"""Each optimizer: its class, where it was made, and how its step is computed."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..hooks.call_site import CallSite
from .flags import read

MOST = 32
"""Optimizers that are told of."""

OPTIONS = ("fused", "foreach", "capturable", "differentiable")


def optimizer_settings(optimizers: Mapping[Any, CallSite | None]) -> list[dict[str, Any]]:
    """The settings of each of ``optimizers``, which are given with where they were made."""
    return [_one(one, site) for one, site in list(optimizers.items())[:MOST]]


def in_force(optimizer: Any, name: str) -> Any:
    """The option ``name`` of all groups of ``optimizer``; None where they differ."""
    values = {repr(group.get(name)): group.get(name) for group in optimizer.param_groups}
    return next(iter(values.values())) if len(values) == 1 else None


def _one(optimizer: Any, site: CallSite | None) -> dict[str, Any]:
    kind = type(optimizer)
    return {
        "name": f"{kind.__module__}.{kind.__qualname__}",
        "file": site.file if site else None,
        "line": site.line if site else None,
        "end_line": site.end_line if site else None,
        **{name: read(in_force, optimizer, name) for name in OPTIONS},
        "groups": read(lambda: len(optimizer.param_groups)),
        "parameters": read(lambda: sum(len(group["params"]) for group in optimizer.param_groups)),
    }
