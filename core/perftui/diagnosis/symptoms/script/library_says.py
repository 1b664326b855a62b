"""Libraries print themselves what makes the training slow."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Limits, Lost, Rule
from perftui.facts.fact import Facts, NotApplicableError, UnknownError, fact
from perftui.facts.place import Place
from perftui.run.files import open_regular
from perftui.run.layout import RunLayout
from perftui.trace.text import printable

MOST_BYTES = 1 << 20
"""Bytes of the output that are read, from its beginning: libraries warn early, and mostly once."""

LONGEST = 160
"""Characters of a message that are kept."""

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
"""Beginnings of messages about speed, by who prints them."""

_ANY = re.compile(b"|".join(b"(%s)" % text for text in HINTS.values()))
_NAMES = tuple(HINTS)
_WARNED = re.compile(r"(\S.*\.py):(\d+): \w*Warning: ")
"""How Python begins a warning: the line that it is about."""


@dataclass(frozen=True)
class LibraryHint:
    """One message, as it was printed first."""

    library: str
    message: str
    output_line: int
    """Number of the line in the output, from 1 on."""
    file: str | None = None
    """The line that the warning is about, where it names one."""
    line: int | None = None


@fact
def library_hints(facts: Facts) -> tuple[LibraryHint, ...]:
    """Messages about speed in the beginning of the script's output, one of each kind.

    Raises:
        UnknownError: there is no run, or its output cannot be read.
    """
    if facts.run is None:
        raise UnknownError("a trace has no script output")
    path = RunLayout(facts.run.root).output
    try:
        size = min(path.stat().st_size, MOST_BYTES)
        return _hints(path, size)
    except OSError as error:
        raise UnknownError(f"the output cannot be read: {error.strerror}") from error


@lru_cache(maxsize=8)
def _hints(path: Path, size: int) -> tuple[LibraryHint, ...]:
    """Hints in the first ``size`` bytes of the log at ``path``, which only grows."""
    with open_regular(path) as file:
        content = file.read(size)
    found: dict[str, LibraryHint] = {}
    for match in _ANY.finditer(content):
        library = _NAMES[(match.lastindex or 1) - 1]
        if library not in found:
            found[library] = _hint(library, content, match.start())
    return tuple(found.values())


def _hint(library: str, content: bytes, at: int) -> LibraryHint:
    begin, end = content.rfind(b"\n", 0, at) + 1, content.find(b"\n", at)
    line = content[begin : end if end >= 0 else None].decode("utf-8", "replace").strip()
    message = content[at : end if end >= 0 else None].decode("utf-8", "replace").strip()
    warned = _WARNED.match(line)
    return LibraryHint(
        library,
        printable(message)[:LONGEST],
        content.count(b"\n", 0, at) + 1,
        printable(warned[1]) if warned else None,
        int(warned[2]) if warned else None,
    )


def _hinted(facts: Facts) -> Lost | None:
    """What libraries print about speed; what it costs is not known, so the cost is 0."""
    hints = library_hints.or_none(facts)
    if hints is None:
        raise NotApplicableError
    if not hints:
        return None
    first, more = hints[0], len(hints) - 1
    others = f"; {fmt.several(more, 'more message')} like it" if more else ""
    return Lost(
        0,
        None,
        f'{first.library} reports in line {first.output_line} of the output: "{first.message}"'
        f"{others}.",
        tuple(
            Figure(f"{hint.library}, line {hint.output_line}", hint.message, place=_place(hint))
            for hint in hints
        ),
        place=_place(first),
        share=LIBRARY_SAYS.limits.info,
    )


def _place(hint: LibraryHint) -> Place | None:
    is_own = hint.file is not None and "-packages/" not in hint.file
    return Place(file=hint.file, line=hint.line) if is_own else None


LIBRARY_SAYS = Rule(
    id="library-says",
    when="PyTorch or another library reports in the output that something is slow",
    explanation=(
        "Libraries print advice once, at the start, where it is easily missed. It holds for many "
        "trainings, but not for all: the other findings show what it costs here."
    ),
    lost=_hinted,
    limits=Limits.of_hint(0.5, "Never more than a hint: the cost is not measured."),
    answer="follow the message",
)
