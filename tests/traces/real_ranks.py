"""Many ranks of one training, made from the real trace of one.

Each rank gets a number, the process group of all, a clock of its own that is off by a known time,
and a known time by which it comes late to every all-reduce. All leave an all-reduce together, so a
rank that comes late is in it for less long."""

import gzip
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

_GROUP = '"Process Group Ranks": "[0, 1]"'
_ON_GPU = ("kernel", "gpu_memcpy", "gpu_memset")
_ARROWS = ("ac2g", "fwdbwd")
_SIZE = '"Group size": 2'


@dataclass(frozen=True)
class RealRank:
    """The events of one real trace, as text without their times."""

    head: dict[str, Any]
    events: list[tuple[str, int, int | None, bool]]
    """Text, start and duration in ns, and whether it is an all-reduce on the GPU."""


def read_real(path: Path, *, shortest: int = 0) -> RealRank:
    """The trace at ``path``, of a group of two.

    With ``shortest``, all that took less than so many ns is left out, and so are arrows, and calls
    of the CUDA runtime that gave the GPU none of what is left."""
    whole = json.loads(gzip.decompress(path.read_bytes()), parse_float=Decimal)
    events = whole.pop("traceEvents")
    if shortest:
        events = list(_longer(events, shortest))
    return RealRank(whole, [_event(one) for one in events])


def _longer(events: list[dict[str, Any]], shortest: int) -> Iterator[dict[str, Any]]:
    long = {id(one) for one in events if one.get("dur", shortest) * 1000 >= shortest}
    known = {_correlation(one) for one in events if one.get("cat") in _ON_GPU and id(one) in long}
    for one in events:
        kind = one.get("cat")
        if kind == "cuda_runtime":
            if _correlation(one) in known:
                yield one
        elif id(one) in long and kind not in _ARROWS:
            yield one


def _correlation(event: dict[str, Any]) -> object:
    return event["args"].get("correlation")


def _event(event: dict[str, Any]) -> tuple[str, int, int | None, bool]:
    start, lasts = int(event.pop("ts") * 1000), event.pop("dur", None)
    reduces = event.get("cat") == "kernel" and "AllReduce" in event["name"]
    return (
        json.dumps(event, default=float),
        start,
        None if lasts is None else int(lasts * 1000),
        reduces,
    )


def write_real_ranks(
    real: RealRank, folder: Path, count: int, off: Callable[[int], int], late: Callable[[int], int]
) -> Path:
    """The traces of ``count`` ranks as files of ``folder``, which is given back.

    ``off`` is by how many ns the clock of a rank is ahead, ``late`` by how many it comes late."""
    folder.mkdir(exist_ok=True)
    ranks = list(range(count))
    for rank in ranks:
        group = {"pg_name": "0", "pg_desc": "default_pg", "pg_size": count, "ranks": ranks}
        told = {"backend": "nccl", "rank": rank, "world_size": count, "pg_config": [group]}
        head = json.dumps({**real.head, "distributedInfo": told}, default=float)
        events = ",\n".join(_moved(real, off(rank), late(rank)))
        events = events.replace(_GROUP, f'"Process Group Ranks": "{ranks}"')
        events = events.replace(_SIZE, f'"Group size": {count}')
        path = folder / f"rank-{rank}.json"
        path.write_text(f'{head[:-1]}, "traceEvents": [\n{events}\n]}}')
    return folder


def _moved(real: RealRank, off: int, late: int) -> Iterator[str]:
    for text, start, lasts, reduces in real.events:
        begin = start + off + (late if reduces else 0)
        times = f'"ts": {_us(begin)}'
        if lasts is not None:
            times += f', "dur": {_us(lasts - late if reduces else lasts)}'
        yield f"{text[:-1]}, {times}}}"


def _us(ns: int) -> str:
    return f"{ns // 1000}.{ns % 1000:03d}"
