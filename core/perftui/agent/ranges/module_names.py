"""What the ranges of modules are called."""

from __future__ import annotations

import re
from typing import Any

MODULE_MARK = "nn.Module: "
"""How torch's own profiler begins the names of modules, where it records Python stacks."""

WRAPPED = frozenset({"_orig_mod", "_fsdp_wrapped_module", "_checkpoint_wrapped_module"})
"""Attributes under which torch's wrappers hold what they wrap."""

PARALLEL = ("DistributedDataParallel", "DataParallel")
"""Wrappers that hold the model as ``module``."""

MOST_CHARACTERS = 200

# Kineto writes names into its JSON as they are.
_UNSAFE = re.compile(r'["\\\x00-\x1f\x7f]')


class ModuleNames:
    """``nn.Module: encoder.layers.3.attn (MultiheadAttention)``: the place in the model, its class.

    A module that stands at two places has the name of the first, as in ``named_modules()``. The
    modules are kept alive meanwhile, so that no other takes the number of one that is gone.
    """

    def __init__(self) -> None:
        self._names: dict[int, str] = {}
        self._roots: list[Any] = []

    def of(self, module: Any) -> str:
        """Its name, as a part of the first model with it that was asked for."""
        name = self._names.get(id(module))
        if name is None:
            self._learn(module)
            name = self._names[id(module)]
        return name

    def _learn(self, root: Any) -> None:
        self._roots.append(root)
        is_parallel = type(root).__name__ in PARALLEL
        for path, module in root.named_modules():
            name = _name(_place(path, is_parallel), type(module).__name__)
            self._names.setdefault(id(module), name)
        # A class of the script may leave itself out of its own modules.
        self._names.setdefault(id(root), _name("", type(root).__name__))


def _place(path: str, is_parallel: bool) -> str:
    parts = path.split(".")
    if is_parallel and parts[0] == "module":
        del parts[0]
    return ".".join(part for part in parts if part not in WRAPPED)


def _name(place: str, kind: str) -> str:
    whole = f"{place} ({kind})" if place else kind
    return MODULE_MARK + _UNSAFE.sub("?", whole)[:MOST_CHARACTERS]
