"""How many bytes each collective moves, from the trace: Kineto's arguments of the kernel, or of
the operator that launched it, or the sizes of its tensors where shapes were recorded."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import msgspec

from perftui.trace.model import NONE, Trace, TraceError

ALL_REDUCE, ALL_GATHER, REDUCE_SCATTER = "all-reduce", "all-gather", "reduce-scatter"

_KINDS = {"allreduce": ALL_REDUCE, "allgather": ALL_GATHER, "reducescatter": REDUCE_SCATTER}

_BYTES = {
    **dict.fromkeys(("double", "long", "long int"), 8),
    **dict.fromkeys(("float", "int"), 4),
    **dict.fromkeys(("half", "bfloat16", "c10::half", "c10::bfloat16", "short"), 2),
    **dict.fromkeys(("byte", "char", "bool", "unsigned char", "signed char"), 1),
    **dict.fromkeys(("float8_e4m3fn", "float8_e5m2"), 1),
}
"""Of one element, by what Kineto calls its type."""

_ANNOTATION = "nccl:all_reduce"
"""The range around the launch, whose tensor goes in and out whole; of others it is a part."""

_LEVELS = 4
"""Ranges and operators around a launch at most: the call, its annotation, its operators."""


@dataclass(frozen=True)
class CollectiveArguments:
    """Kind, size and ranks of one collective, as the trace records them."""

    kind: str
    """``all-reduce`` and the like; empty for what is none of the three."""
    size: int | None
    """Bytes of the whole tensor that it makes or takes: the larger of what goes in and out on a
    rank."""
    ranks: int | None
    """Ranks that take part."""


def collective_arguments(trace: Trace, row: int, launch: int) -> CollectiveArguments:
    """The collective of the kernel at ``row``, launched by the call at ``launch``: from its
    arguments, else its name (RCCL's kernels have none) and the events around the launch."""
    known = _arguments(trace, row)
    kind = _kind(str(known.get("Collective name") or trace.name_of(row)))
    size = _counted(known)
    for _ in range(_LEVELS):
        if size is not None or launch == NONE:
            break
        launch = int(trace.parent[launch])
        if launch != NONE:
            around = _arguments(trace, launch)
            size = _counted(around)
            kind = kind or _kind(str(around.get("Collective name", "")))
            if size is None and trace.name_of(launch) == _ANNOTATION:
                size = _of_shapes(around)
    return CollectiveArguments(kind, size, _group(trace, known))


def _arguments(trace: Trace, row: int) -> Mapping[str, Any]:
    """Those of a row; none where the file is no longer there."""
    try:
        return trace.read_arguments(row)
    except (OSError, TraceError, msgspec.DecodeError):
        return {}


def _kind(name: str) -> str:
    """Which collective a call or kernel of that name is; empty for those that are none of three."""
    plain = name.replace("_", "").lower()
    return next((kind for word, kind in _KINDS.items() if word in plain), "")


def _group(trace: Trace, known: Mapping[str, Any]) -> int | None:
    """Ranks of the collective, or all ranks of the training if it is not recorded."""
    told = known.get("Group size")
    if isinstance(told, int) and told > 0:
        return told
    info = trace.metadata.get("distributedInfo")
    world = info.get("world_size") if isinstance(info, Mapping) else None
    return world if isinstance(world, int) and world > 0 else None


def _counted(arguments: Mapping[str, Any]) -> int | None:
    """Bytes by the number of elements."""
    each = _BYTES.get(str(arguments.get("dtype", "")).lower())
    counts = (arguments.get("In msg nelems"), arguments.get("Out msg nelems"))
    most = max((count for count in counts if isinstance(count, int)), default=0)
    return most * each if each and most else None


def _of_shapes(arguments: Mapping[str, Any]) -> int | None:
    """Bytes of the first tensor."""
    try:
        shape, kind = arguments["Input Dims"][0], arguments["Input type"][0]
        each = _BYTES.get(str(kind).lower())
        return math.prod(shape) * each if each and shape else None
    except (KeyError, IndexError, TypeError):
        return None
