"""Messages in the output: advice of libraries about speed, and loader workers that died."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import TypeVar

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, rule, without_cost
from perftui.facts.fact import Facts, NotApplicableError
from perftui.facts.place import Place
from perftui.run.files import open_regular
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status
from perftui.trace.text import printable

_T = TypeVar("_T")

FIRST_BYTES, LAST_BYTES = 1 << 20, 1 << 16
"""Bytes read at the start and the end of the output: libraries warn early, and mostly once; a dying
worker ends the training, unless the script continues by itself."""

LONGEST = 160
"""Most characters kept of a message."""


def _read(facts: Facts, read: Callable[[Path, int], _T]) -> _T:
    """The result of ``read`` for the output of a run (which only grows) and its current length. Not
    applicable if there is none, or it cannot be read."""
    if facts.run is None:
        raise NotApplicableError
    path = RunLayout(facts.run.root).output
    try:
        return read(path, path.stat().st_size)
    except OSError as error:
        raise NotApplicableError from error


def _to_line_end(content: bytes, begin: int, at: int) -> str:
    """Text from ``begin`` to the end of the line that contains ``at``."""
    end = content.find(b"\n", at)
    return content[begin : end if end >= 0 else None].decode("utf-8", "replace").strip()


HINTS = {
    "DataLoader": rb"Our suggested max number of worker in current system is",
    "torch.tensor": rb"Creating a tensor from a list of numpy.ndarrays is extremely slow",
    "inductor": rb"TensorFloat32 tensor cores for float32 matrix multiplication available but not",
    "dynamo": rb"torch\._dynamo hit config\.\w+",
    "CUDA graphs": rb"skipping cudagraphs due to",
    "autotuning": rb"Not enough SMs to use max_autotune_gemm mode",
    "torchrun": rb"Setting OMP_NUM_THREADS environment variable for each process to be",
    "DataParallel": rb"There is an imbalance between your GPUs",
    "DDP": rb"find_unused_parameters=True was specified in DDP constructor, but did not find any",
    "DDP buckets": rb"Grad strides do not match bucket view strides",
    "autograd": rb"Anomaly Detection has been enabled",
    "CUDA": rb"CUDA capability sm_\d+ is not compatible with the current PyTorch",
    "recurrent layers": rb"RNN module weights are not part of single contiguous chunk of memory",
    "Lightning": rb"does not have many workers which may be a bottleneck",
    "Ultralytics": rb"Slow image access detected",
    "tokenizers": rb"The current process just got forked, after parallelism has already been used",
    "NCCL": rb"\[\w+\] via NET/Socket",
    "pinned memory": rb"'pin_memory' argument is set as true but no accelerator is found",
    "allocator": rb"expandable_segments not supported on this platform",
    "Transformers": rb"`use_cache=True` is incompatible with gradient checkpointing",
}
"""Beginnings of messages about speed, by their library."""

_ANY_HINT = re.compile(b"|".join(b"(%s)" % text for text in HINTS.values()))
_LIBRARIES = tuple(HINTS)
_WARNED = re.compile(r"(\S.*\.py):(\d+): \w*Warning: ")
"""Start of a Python warning: the line that it is about."""


@dataclass(frozen=True)
class LibraryHint:
    """One message, as first printed."""

    library: str
    message: str
    output_line: int
    """Line number in the output, from 1."""
    place: Place | None
    """The line that the warning is about, if it is the user's."""


@lru_cache(maxsize=8)
def _hints(path: Path, size: int) -> tuple[LibraryHint, ...]:
    """Messages about speed in the first ``size`` bytes of the log at ``path``, one of each kind."""
    with open_regular(path) as file:
        content = file.read(size)
    hints: dict[str, LibraryHint] = {}
    for match in _ANY_HINT.finditer(content):
        library, at = _LIBRARIES[(match.lastindex or 1) - 1], match.start()
        if library in hints:
            continue
        warning = _WARNED.match(_to_line_end(content, content.rfind(b"\n", 0, at) + 1, at))
        place = None
        if warning and "-packages/" not in warning[1]:
            place = Place(file=printable(warning[1]), line=int(warning[2]))
        message = printable(_to_line_end(content, at, at))[:LONGEST]
        hints[library] = LibraryHint(library, message, content.count(b"\n", 0, at) + 1, place)
    return tuple(hints.values())


@rule(
    when="a library says in the output that something is slow",
    limits=Limits.of_hint(0.5, "The cost is not measured."),
    answer="follow the message",
)
def library_says(facts: Facts) -> Lost | None:
    """Libraries print advice once, at the start, where it is easily missed. The other findings show
    what it costs here."""
    # Messages of libraries about speed; their cost is unknown, so it is 0.
    hints = _read(facts, lambda path, size: _hints(path, min(size, FIRST_BYTES)))
    if not hints:
        return None
    first, more = hints[0], len(hints) - 1
    others = f"; {fmt.several(more, 'more message')} like it" if more else ""
    return without_cost(
        f'{first.library} reports in line {first.output_line} of the output: "{first.message}"'
        f"{others}.",
        tuple(
            Figure(f"{hint.library}, line {hint.output_line}", hint.message, place=hint.place)
            for hint in hints
        ),
        first.place,
        share=library_says.limits.info,
    )


_ENDED = "it exited by itself; its own error is further up in the output"

_CAUSES = {
    "it ran out of shared memory, through which workers hand over batches": (
        rb"unable to open shared memory object"
        rb"|unable to allocate shared memory\(shm\)"
        rb"|unable to (?:write to|resize|mmap \d+ bytes from) file </torch_"
        rb"|Unexpected bus error encountered in worker"
        rb"|DataLoader worker \(pid \d+\) is killed by signal: Bus error"
    ),
    "each tensor handed over takes an open file, and the limit is reached": (
        rb"Too many open files\. Communication with the workers"
    ),
    "a signal killed it, as when the machine runs out of memory": (
        rb"DataLoader worker \(pid \d+\) is killed by signal: (?!Bus error|Terminated|Interrupt)"
    ),
    _ENDED: rb"DataLoader worker \(pid\(s\) [\d, ]+\) exited unexpectedly",
}
"""Beginnings of messages by what they tell; those that name a cause come first."""

_ANY_DEATH = re.compile(b"|".join(b"(%s)" % texts for texts in _CAUSES.values()))


@lru_cache(maxsize=8)
def _death(path: Path, size: int) -> tuple[str, str, int] | None:
    """Worker deaths in the first ``size`` bytes of the log at ``path``: the cause, the most
    informative message, and the number of its kind; None without any."""
    with open_regular(path) as file:
        content = file.read(min(size, FIRST_BYTES))
        if size > FIRST_BYTES:
            file.seek(max(size - LAST_BYTES, FIRST_BYTES))
            content += file.read(LAST_BYTES)
    matches = [(match.lastindex or 1, match.start()) for match in _ANY_DEATH.finditer(content)]
    if not matches:
        return None
    kind, at = min(matches)
    message = printable(_to_line_end(content, at, at).partition(". ")[0])[:LONGEST]
    return tuple(_CAUSES)[kind - 1], message, sum(other == kind for other, _ in matches)


@rule(
    when="workers of the data loader die, or run out of shared memory",
    limits=Limits.of_hint(0.5, "The cost is not part of a step."),
    answer=(
        "give the container more shared memory (--shm-size=8g), use fewer workers, or lower "
        "prefetch_factor"
    ),
)
def workers_died(facts: Facts) -> Lost | None:
    """Workers pass batches through shared memory (/dev/shm), of which a container has 64 MB. Too
    little memory or too many open files (ulimit -n) also end workers."""
    # The cost is unknown: mostly it is the run.
    death = _read(facts, _death)
    # Ending the training also ends its workers, and torch may report that.
    killed = facts.run is not None and facts.run.manifest.status is Status.KILLED
    if death is None or (killed and death[0] == _ENDED):
        return None
    why, message, messages = death
    return without_cost(
        f'A worker of the data loader failed ("{message}"): {why}.',
        (Figure("messages of this kind", messages, "count"),),
        share=workers_died.limits.info,
    )
