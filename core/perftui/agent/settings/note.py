"""Everything of the ``settings`` note.

Reading must change nothing: no CUDA is initialised, nothing is imported, no object kept alive.
"""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..hooks.call_site import CallSite
from ..safety.signal_handlers import attempt
from .flags import cudnn, matmul, modes, threads
from .model import all_modules, is_compiled, optimizer_settings, parameters, wrappers

VARIABLES = frozenset(
    {
        "OMP_NUM_THREADS",
        "MKL_NUM_THREADS",
        "CUDA_LAUNCH_BLOCKING",
        "TORCH_LOGS",
        "PYTORCH_CUDA_ALLOC_CONF",
        "PYTORCH_ALLOC_CONF",
        "NCCL_DEBUG",
        "TORCH_DISTRIBUTED_DEBUG",
        "CUBLAS_WORKSPACE_CONFIG",
        "PYTORCH_NO_CUDA_MEMORY_CACHING",
        "TORCH_CUDA_SANITIZER",
        "TORCH_SHOW_CPP_STACKTRACES",
        "PYTHONDEVMODE",
        "PYTHONMALLOC",
        "PYTHONTRACEMALLOC",
    }
)
"""Variables of the environment that are told of: a fixed list, as others may hold secrets."""

PREFIX = "TORCHDYNAMO_"
"""Of further ones."""

LONGEST = 200
"""Characters of a value."""


def settings_facts(
    torch: Any,
    optimizers: Mapping[Any, CallSite | None],
    modules: Iterable[Any],
    autocast: dict[str, str] | None,
) -> dict[str, Any]:
    """Data of a ``settings`` note; None stands for what could not be read.

    ``modules`` are those that the script calls itself, ``autocast`` what was in use around them.
    """
    called: Any = attempt(all_modules, modules)
    readers: dict[str, Callable[[], Any]] = {
        "threads": lambda: threads(torch),
        "environment": environment,
        "matmul": lambda: matmul(torch),
        "cudnn": lambda: cudnn(torch),
        "modes": lambda: modes(torch),
        "autocast": lambda: autocast,
        "gc": garbage_collection,
        "optimizers": lambda: optimizer_settings(optimizers),
        "wrappers": lambda: wrappers(called),
        "parameters": lambda: parameters(torch, called, list(optimizers)),
        "compiled": lambda: is_compiled(called),
    }
    return {name: attempt(reader) for name, reader in readers.items()}


def environment() -> dict[str, str]:
    """The variables of the fixed list that are set."""
    return {
        name: value[:LONGEST]
        for name, value in sorted(os.environ.items())
        if name in VARIABLES or name.startswith(PREFIX)
    }


def garbage_collection() -> dict[str, Any]:
    """Whether Python's collector runs by itself, when, and what it never looks at."""
    return {
        "enabled": gc.isenabled(),
        "thresholds": list(gc.get_threshold()),
        "frozen": gc.get_freeze_count(),
    }
