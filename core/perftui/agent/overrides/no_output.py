"""A training that prints, logs and saves nothing."""

from __future__ import annotations

import builtins
import logging
import os
import sys
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

from .request import Request

if TYPE_CHECKING:
    from ..recording.session import Session

VARIABLES = {"TQDM_DISABLE": "1", "WANDB_MODE": "disabled"}
"""What progress bars and Weights & Biases read when the script imports them."""

WRITERS = frozenset({"torch.utils.tensorboard.writer", "tensorboardX.writer"})
"""Modules that define a ``SummaryWriter``."""


def silence(torch: Any, session: Session, request: Request) -> None:
    """Drop what the script prints, logs and saves; errors are still reported."""
    os.environ.update(VARIABLES)
    builtins.print = _nothing
    # The script's own writes, and those of progress bars.
    sys.stdout = Path(os.devnull).open("w", encoding="utf-8")  # noqa: SIM115 - open to the end
    logging.disable(logging.CRITICAL)
    torch.save = torch.serialization.save = _nothing
    sys.meta_path.insert(0, _Writers())
    session.overrides.report(request.note({}, request.arguments))


class _Writers:
    """A finder that lets the writers of TensorBoard write nothing once they are imported."""

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> ModuleSpec | None:
        """The spec of a module of ``WRITERS`` by the other finders, its loader watched."""
        if name not in WRITERS:
            return None
        others = [one for one in sys.meta_path if one is not self and hasattr(one, "find_spec")]
        spec = next(filter(None, (one.find_spec(name, path, target) for one in others)), None)
        if spec is not None and spec.loader is not None:
            _after_import(spec.loader)
        return spec


def _after_import(loader: Any) -> None:
    execute = loader.exec_module

    def exec_module(module: ModuleType) -> None:
        execute(module)
        writer = getattr(module, "SummaryWriter", None)
        for name in vars(writer or object):
            if name.startswith("add_"):
                setattr(writer, name, _nothing)

    loader.exec_module = exec_module


def _nothing(*_: Any, **__: Any) -> None:
    """In place of what writes."""
