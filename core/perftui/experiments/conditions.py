"""What differs between two runs: machine, versions, source, command, settings, and their work."""

from __future__ import annotations

import enum
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from perftui.facts.cpu.machine import busy_host
from perftui.facts.data_loader.loader import training_loader
from perftui.facts.fact import Facts, NotApplicableError, fact, finite, samples
from perftui.facts.settings import Settings, settings
from perftui.facts.step.steps import micro_batches, whole_training
from perftui.run.manifest import Manifest
from perftui.telemetry.gpu.names import gpu_prefixes

COMMIT_LETTERS = 10
DIRTY = "with uncommitted changes"


class Effect(str, enum.Enum):
    """What a difference means for the comparison of both runs."""

    SOURCE = "source"
    """The source is another one, which is what runs are usually compared for."""
    PARTLY = "partly"
    """A change of the step may come from this difference instead of from the source."""
    NOT_COMPARABLE = "not comparable"
    """A step of one run is not what a step of the other is."""


@dataclass(frozen=True)
class Difference:
    """One condition that is known of both runs, and is not the same."""

    what: str
    before: str
    after: str
    effect: Effect

    @property
    def text(self) -> str:
        """``torch 2.8.0 -> 2.9.1``."""
        return f"{self.what} {self.before} -> {self.after}"


@dataclass(frozen=True)
class Conditions:
    """What a run was made with, as far as it is known: little, so that many may be kept."""

    manifest: Manifest
    processes: int
    """That train side by side; 1 before any has written anything."""
    batch_size: int | None
    """Samples of a batch of the training's loader."""
    micro_batches: int | None
    """Of a step."""
    trained: int | None
    """Training steps of a script that came to its end by itself."""
    cuda: str | None
    """The version that torch was built for."""
    power_limit: int | None
    """W, of the GPUs that were sampled; None where they differ."""
    environment: Mapping[str, str] | None
    """Variables that matter to speed, as far as they are set."""


@fact
def conditions(run: Facts) -> Conditions:
    """The conditions of a run.

    Raises:
        NotApplicableError: it is a trace without a run.
    """
    if run.manifest is None or run.run is None:
        raise NotApplicableError
    known, loader = settings(run), training_loader(run)
    return Conditions(
        run.manifest,
        run.run.world if run.rank else 1,
        loader.batch_size if loader else None,
        micro_batches(run),
        whole_training(run),
        known.build.cuda if known and known.build else None,
        _power_limit(run),
        known.environment if known else None,
    )


def _power_limit(run: Facts) -> int | None:
    table = samples(run)
    limits = {
        round(float(np.median(known)))
        for gpu in gpu_prefixes(column.name for column in table.columns)
        if len(known := finite(table, f"{gpu}.power_limit"))
    }
    return limits.pop() if len(limits) == 1 else None


def differences(before: Facts, after: Facts) -> tuple[Difference, ...]:
    """The conditions that differ, those that forbid a comparison first; empty unless both are runs.

    What is unknown of one run is no difference.
    """
    first, second = conditions.or_none(before), conditions.or_none(after)
    return differing(first, second) if first and second else ()


def differing(before: Conditions, after: Conditions) -> tuple[Difference, ...]:
    """The same, of conditions that are kept."""
    kinds = [sorted(set(one.manifest.gpus)) for one in (before, after)]
    # A run on a machine whose driver does not answer lists no GPU, but may use one.
    other_cards = all(kinds) and kinds[0] != kinds[1]
    forbids = {_GPU: other_cards, _CPU: not any(kinds), **dict.fromkeys(_WORK, True)}
    found = [
        Difference(
            what,
            old,
            new,
            Effect.NOT_COMPARABLE if forbids.get(what) else Effect.PARTLY,
        )
        for what, text in _CONDITIONS.items()
        if (old := text(before)) and (new := text(after)) and old != new
    ]
    found += [*_environment(before, after)]
    found += [*_command(before.manifest.command, after.manifest.command)]
    old, new = _source(before.manifest), _source(after.manifest)
    if old and new and old != new:
        found.append(Difference("commit", old, new, Effect.SOURCE))
    order = [Effect.NOT_COMPARABLE, Effect.PARTLY, Effect.SOURCE]
    return tuple(sorted(found, key=lambda one: order.index(one.effect)))


def other_machine(found: Sequence[Difference]) -> str:
    """Why the step says more of the machine than of the training, empty where it does not."""
    for one in found:
        if one.effect is Effect.NOT_COMPARABLE and one.what in (_GPU, _CPU):
            return f"{one.text}: the step is that of another machine"
    return ""


def is_source_unknown(before: Manifest, after: Manifest) -> bool:
    """Whether both runs have the same commit and neither ran just that."""
    same = before.git_commit is not None and before.git_commit == after.git_commit
    return same and bool(before.git_dirty) and bool(after.git_dirty)


_GPU, _CPU = "GPU", "CPU"


def _cards(names: Sequence[str]) -> str:
    """``4x NVIDIA H200``, of several kinds each."""
    numbered = {name: names.count(name) for name in sorted(names)}
    cards = (f"{count}x {name}" if count > 1 else name for name, count in numbered.items())
    return ", ".join(cards) or "none"


def _number(number: int | None, unit: str = "") -> str:
    return "" if number is None else f"{number:,}{unit}"


_WORK: Mapping[str, Callable[[Conditions], int | None]] = {
    "training processes": lambda one: one.processes,
    "batch size": lambda one: one.batch_size,
    "micro-batches a step": lambda one: one.micro_batches,
}
"""What makes a step other work."""

_CONDITIONS: Mapping[str, Callable[[Conditions], str | None]] = {
    "training processes": lambda one: _number(one.processes),
    "batch size": lambda one: _number(one.batch_size),
    "micro-batches a step": lambda one: _number(one.micro_batches),
    _GPU: lambda one: _cards(one.manifest.gpus),
    _CPU: lambda one: one.manifest.cpu_name,
    "cores": lambda one: str(one.manifest.cpu_count or ""),
    "CPU governor": lambda one: one.manifest.cpu_governor,
    "GPU power limit": lambda one: _number(one.power_limit or None, " W"),
    "host": lambda one: one.manifest.host,
    "torch": lambda one: one.manifest.torch_version,
    "Python": lambda one: one.manifest.python_version,
    "GPU driver": lambda one: one.manifest.gpu_driver,
    "perftui": lambda one: one.manifest.perftui_version,
    "CUDA": lambda one: one.cuda,
}
"""Each as a text, empty where it is not known."""


def _environment(before: Conditions, after: Conditions) -> Iterator[Difference]:
    """Without variables that a fix sets: they are the change."""
    if before.environment is None or after.environment is None:
        return
    known = (before.environment, after.environment)
    given = (*before.manifest.overrides, *after.manifest.overrides)
    of_fixes = {name for one in given for name in one.arguments}
    names = sorted({*known[0], *known[1]} - of_fixes)
    for name in names:
        old, new = (each.get(name) or "not set" for each in known)
        if old != new:
            yield Difference(name, old, new, Effect.PARTLY)


def _command(before: Sequence[str], after: Sequence[str]) -> Iterator[Difference]:
    """The words between what both commands begin and end with."""
    if tuple(before) == tuple(after):
        return
    fewest = min(len(before), len(after))
    first = next((at for at in range(fewest) if before[at] != after[at]), fewest)
    behind = next(
        (at for at in range(fewest - first) if before[-1 - at] != after[-1 - at]), fewest - first
    )
    # `--lr 0.1` says more than `0.1`.
    if first > 0 and before[first - 1].startswith("-"):
        first -= 1
    old, new = (shlex.join(words[first : len(words) - behind]) for words in (before, after))
    yield Difference("command", old or "nothing", new or "nothing", Effect.PARTLY)


def _source(manifest: Manifest) -> str:
    commit = (manifest.git_commit or "")[:COMMIT_LETTERS]
    return f"{commit} {DIRTY}" if commit and manifest.git_dirty else commit


LOADER_ARGUMENTS = (
    *("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "batch_size"),
)
OPTIMIZER_ARGUMENTS = ("class_name", "fused", "foreach", "capturable")


InForce = Mapping[str, Any]
"""Values by name, as far as they are known; those of a loader or an optimizer may be None."""


def effective_changes(before: Facts, after: Facts) -> tuple[str, ...]:
    """Arguments of the training's loader and optimizer, threads and precision that are in force and
    differ: ``num_workers 0 -> 2``, ``autocast none seen -> cuda bfloat16``."""
    return in_force_changes(in_force(before), in_force(after))


def in_force_changes(before: InForce, after: InForce) -> tuple[str, ...]:
    """The same, of values that are kept."""
    return tuple(
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    )


@fact
def in_force(run: Facts) -> InForce:
    """What the training is set up with."""
    known, loader = settings(run), training_loader(run)
    made = known.optimizers or () if known else ()
    # The one with most tensors.
    optimizer = max(made, key=lambda one: one.parameters or 0, default=None)
    return {
        **{name: getattr(loader, name) for name in LOADER_ARGUMENTS if loader},
        **{name: getattr(optimizer, name) for name in OPTIMIZER_ARGUMENTS if optimizer},
        **(dict(_switches(known)) if known else {}),
    }


def _switches(known: Settings) -> Iterator[tuple[str, Any]]:
    """Threads, precision and modes by name, as far as they are known."""
    threads, matmul, cudnn, modes = known.threads, known.matmul, known.cudnn, known.modes
    # Data types of the parameters, that of the most elements first.
    elements: Counter[str] = Counter()
    for one in known.parameters or ():
        elements[one.dtype] += one.elements
    # A model that casts within its own forward is not seen from outside.
    cast = (f"{device} {dtype}" for device, dtype in (known.autocast or {}).items())
    named = (
        ("threads", threads and threads.intra_op),
        ("threads between operators", threads and threads.inter_op),
        ("float32 products", matmul and matmul.float32_precision),
        ("TensorFloat-32 in convolutions", matmul and matmul.cudnn_allow_tf32),
        ("default dtype", modes and modes.default_dtype),
        ("parameters", ", ".join(dtype for dtype, _ in elements.most_common()) or None),
        ("autocast", ", ".join(cast) or "none seen"),
        ("cuDNN benchmark", cudnn and cudnn.benchmark),
        ("deterministic", modes and modes.deterministic),
        ("anomaly detection", modes and modes.anomaly),
        ("compiled", known.compiled),
    )
    yield from ((name, value) for name, value in named if value is not None)


def incomparable(before: Facts, after: Facts) -> str:
    """Why two runs cannot be compared, empty where nothing is against it.

    A step of one may not be the work of a step of the other, or one may have trained more steps: a
    dataset that gives each worker a part makes more and smaller batches.
    """
    return other_work(conditions(before), conditions(after))


def other_work(before: Conditions, after: Conditions) -> str:
    """The same, of conditions that are kept."""
    for name in ("batch size", "micro-batches a step", "training processes"):
        old, new = _WORK[name](before), _WORK[name](after)
        if old is not None and new is not None and old != new:
            return f"{name} {old} -> {new}: a step is not the same work in both runs"
    counts = before.trained, after.trained
    if None in counts or counts[0] == counts[1]:
        return ""
    steps = " and ".join(f"{count:,}" for count in counts)
    most = [
        (run.batch_size or 0) * (run.trained or 0) * (run.micro_batches or 1) * run.processes
        for run in (before, after)
    ]
    is_known = None not in (before.batch_size, after.batch_size)
    known = f" (up to {most[0]:,} and {most[1]:,} samples)" if is_known else ""
    return f"the runs trained {steps} steps{known}: they did not do the same work"


def busy(before: Facts, after: Facts) -> str:
    """What kept the host busy and what to do about it, empty where it was not.

    How large the difference is does not matter: a busy host alone makes such differences.
    """
    reasons = [(name, busy_host(run)) for name, run in (("first", before), ("second", after))]
    known = [(name, why) for name, why in reasons if why]
    if not known:
        return ""
    runs = "both runs" if len(known) == 2 else f"the {known[0][0]} run"
    return f"the host was busy: {known[0][1]}; repeat {runs} on an idle machine"
