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
from perftui.facts.source.source_calls import compared_sources, source_files
from perftui.facts.step.steps import micro_batches, whole_training
from perftui.run.manifest import Manifest
from perftui.telemetry.gpu.names import gpu_prefixes


class Effect(str, enum.Enum):
    """What a difference means for the comparison of both runs."""

    SOURCE = "source"
    """The source is another one, which is what runs are usually compared for."""
    PARTLY = "partly"
    """A change of the step may come from this difference instead of from the source."""
    NOT_COMPARABLE = "not comparable"
    """The steps of both runs do not do the same work."""


@dataclass(frozen=True)
class Difference:
    """One condition that is known of both runs, and is not the same."""

    what: str
    before: str
    after: str
    effect: Effect

    @property
    def text(self) -> str:
        """``torch 2.8.0 -> 2.9.1``, or ``train.py changed between the runs``."""
        since = f"{self.before} -> " if self.before else ""
        return f"{self.what} {since}{self.after}"


@dataclass(frozen=True)
class Conditions:
    """What a run was made with, as far as it is known: little, so that many may be kept."""

    manifest: Manifest
    processes: int
    """Processes that train side by side; 1 before any has written anything."""
    batch_size: int | None
    """Samples of a batch of the training's loader."""
    micro_batches: int | None
    """Micro-batches of a step."""
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
    """The conditions of a run. Not applicable to a trace without a run."""
    if run.manifest is None or run.run is None:
        raise NotApplicableError
    setup, loader = settings(run), training_loader(run)
    return Conditions(
        run.manifest,
        run.run.world if run.rank else 1,
        loader.batch_size if loader else None,
        micro_batches(run),
        whole_training(run),
        setup.build.cuda,
        _power_limit(run),
        setup.environment,
    )


def _power_limit(run: Facts) -> int | None:
    table = samples(run)
    limits = {
        round(float(np.median(watts)))
        for gpu in gpu_prefixes(column.name for column in table.columns)
        if len(watts := finite(table, f"{gpu}.power_limit"))
    }
    return limits.pop() if len(limits) == 1 else None


def differing(before: Conditions, after: Conditions) -> tuple[Difference, ...]:
    """The conditions that differ, those that forbid a comparison first.

    What is unknown of one run is no difference."""
    kinds = [sorted(set(side.manifest.gpus)) for side in (before, after)]
    # A run on a machine whose driver does not answer lists no GPU, but may use one.
    other_cards = all(kinds) and kinds[0] != kinds[1]
    forbids = {_GPU: other_cards, _CPU: not any(kinds), **dict.fromkeys(_WORK, True)}
    rows = [
        Difference(what, old, new, Effect.NOT_COMPARABLE if forbids.get(what) else Effect.PARTLY)
        for what, condition in _CONDITIONS.items()
        if (old := _text(condition(before))) and (new := _text(condition(after))) and old != new
    ]
    rows += [*_environment(before, after)]
    rows += [*_command(before.manifest.command, after.manifest.command)]
    old, new = _source(before.manifest), _source(after.manifest)
    if old and new and old != new:
        rows.append(Difference("commit", old, new, Effect.SOURCE))
    order = [Effect.NOT_COMPARABLE, Effect.PARTLY, Effect.SOURCE]
    return tuple(sorted(rows, key=lambda row: order.index(row.effect)))


EDITED = "changed between the runs"


def edited(before: Facts, after: Facts) -> list[Difference]:
    """The user's files that two runs of one script read differently: of what both keep copies, by
    those; of others, those that were written last after the first began, when it is not known
    whether those written after both were edited before."""
    runs = sorted((side for side in (before, after) if side.manifest), key=_began)
    if len({(side.manifest.script, side.manifest.cwd) for side in runs if side.manifest}) != 1:
        return []
    first, last = map(_began, (runs[0], runs[-1]))
    copies = compared_sources(runs[0], runs[-1])
    words = ("changed later, perhaps between the runs", EDITED)
    return [
        Difference(path.name, "", words[path in copies or written <= last], Effect.SOURCE)
        for path, written in source_files(runs[-1])
        if copies.get(path, written > first)
    ]


def _began(run: Facts) -> int:
    return run.manifest.started_ns if run.manifest else 0


def other_machine(rows: Sequence[Difference]) -> str:
    """Why the step says more of the machine than of the training, empty where it does not."""
    for row in rows:
        if row.effect is Effect.NOT_COMPARABLE and row.what in (_GPU, _CPU):
            return f"{row.text}: the step is that of another machine"
    return ""


_GPU, _CPU = "GPU", "CPU"


def _cards(names: Sequence[str]) -> str:
    """``4x NVIDIA H200``, each kind with its number."""
    numbered = {name: names.count(name) for name in sorted(names)}
    cards = (f"{count}x {name}" if count > 1 else name for name, count in numbered.items())
    return ", ".join(cards) or "none"


def _text(condition: str | int | None) -> str:
    return f"{condition:,}" if isinstance(condition, int) else condition or ""


_WORK: Mapping[str, Callable[[Conditions], int | None]] = {
    "training processes": lambda c: c.processes,
    "batch size": lambda c: c.batch_size,
    "micro-batches a step": lambda c: c.micro_batches,
}
"""Conditions without which a step is other work."""

_CONDITIONS: Mapping[str, Callable[[Conditions], str | int | None]] = {
    **_WORK,
    _GPU: lambda c: _cards(c.manifest.gpus),
    _CPU: lambda c: c.manifest.cpu_name,
    "cores": lambda c: str(c.manifest.cpu_count or ""),
    "CPU governor": lambda c: c.manifest.cpu_governor,
    "GPU power limit": lambda c: f"{c.power_limit:,} W" if c.power_limit else None,
    "host": lambda c: c.manifest.host,
    "torch": lambda c: c.manifest.torch_version,
    "Python": lambda c: c.manifest.python_version,
    "GPU driver": lambda c: c.manifest.gpu_driver,
    "perftui": lambda c: c.manifest.perftui_version,
    "CUDA": lambda c: c.cuda,
}
"""All conditions; None or empty where they are not known."""


def _environment(before: Conditions, after: Conditions) -> Iterator[Difference]:
    """Differences of variables, without those that a fix sets: they are the change."""
    if before.environment is None or after.environment is None:
        return
    sides = (before.environment, after.environment)
    overrides = (*before.manifest.overrides, *after.manifest.overrides)
    of_fixes = {name for override in overrides for name in override.arguments}
    names = sorted({*sides[0], *sides[1]} - of_fixes)
    for name in names:
        old, new = (side.get(name) or "not set" for side in sides)
        if old != new:
            yield Difference(name, old, new, Effect.PARTLY)


def _command(before: Sequence[str], after: Sequence[str]) -> Iterator[Difference]:
    """The words that differ between the common begin and end of both commands."""
    if tuple(before) == tuple(after):
        return
    fewest = min(len(before), len(after))
    first = next((at for at in range(fewest) if before[at] != after[at]), fewest)
    same_end = next(
        (at for at in range(fewest - first) if before[-1 - at] != after[-1 - at]), fewest - first
    )
    # `--lr 0.1` says more than `0.1`.
    if first > 0 and before[first - 1].startswith("-"):
        first -= 1
    old, new = (shlex.join(words[first : len(words) - same_end]) for words in (before, after))
    yield Difference("command", old or "nothing", new or "nothing", Effect.PARTLY)


def _source(manifest: Manifest) -> str:
    commit = (manifest.git_commit or "")[:10]
    return f"{commit} with uncommitted changes" if commit and manifest.git_dirty else commit


InForce = Mapping[str, Any]
"""Values by name, as far as they are known; those of a loader or an optimizer may be None."""


def in_force_changes(before: InForce, after: InForce) -> tuple[str, ...]:
    """Arguments of the training's loader and optimizer, threads and precision that are in force and
    differ: ``num_workers 0 -> 2``, ``autocast none seen -> cuda bfloat16``."""
    return tuple(
        f"{name} {before[name]} -> {after[name]}"
        for name in before
        if name in after and before[name] != after[name]
    )


@fact
def in_force(run: Facts) -> InForce:
    """What the training is set up with: its loader, optimizer, threads, precision and modes."""
    setup, loader = settings(run), training_loader(run)
    optimizers = setup.optimizers or ()
    # The optimizer with the most tensors.
    optimizer = max(optimizers, key=lambda row: row.parameters or 0, default=None)
    of_loader = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "batch_size")
    of_optimizer = ("class_name", "fused", "foreach", "capturable")
    return {
        **{name: getattr(loader, name) for name in of_loader if loader},
        **{name: getattr(optimizer, name) for name in of_optimizer if optimizer},
        **(dict(_switches(setup)) if setup != Settings() else {}),
    }


def _switches(setup: Settings) -> Iterator[tuple[str, Any]]:
    """Threads, precision and modes by name, as far as they are known."""
    threads, matmul, cudnn, modes = setup.threads, setup.matmul, setup.cudnn, setup.modes
    # Data types of the parameters; the one of the most elements comes first.
    elements: Counter[str] = Counter()
    for row in setup.parameters or ():
        elements[row.dtype] += row.elements
    # A model that casts within its own forward is not seen from outside.
    cast = (f"{device} {dtype}" for device, dtype in (setup.autocast or {}).items())
    values = (
        ("threads", threads.intra_op),
        ("threads between operators", threads.inter_op),
        ("float32 products", matmul.float32_precision),
        ("TensorFloat-32 in convolutions", matmul.cudnn_allow_tf32),
        ("default dtype", modes.default_dtype),
        ("parameters", ", ".join(dtype for dtype, _ in elements.most_common()) or None),
        ("autocast", ", ".join(cast) or "none seen"),
        ("cuDNN benchmark", cudnn.benchmark),
        ("deterministic", modes.deterministic),
        ("anomaly detection", modes.anomaly),
        ("compiled", setup.compiled),
    )
    yield from ((name, value) for name, value in values if value is not None)


def other_work(before: Conditions, after: Conditions) -> str:
    """Why two runs cannot be compared, empty where nothing is against it.

    A step of one may not be the work of a step of the other, or one may have trained more steps: a
    dataset that gives each worker a part makes more and smaller batches."""
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
    samples = f" (up to {most[0]:,} and {most[1]:,} samples)" if is_known else ""
    return f"{steps} steps{samples}, so only step times are compared"


def busy(before: Facts, after: Facts) -> str:
    """What kept the host busy and what to do about it; empty where it was not."""
    reasons = [(name, busy_host(run)) for name, run in (("first", before), ("second", after))]
    causes = [(name, why) for name, why in reasons if why]
    if not causes:
        return ""
    runs = "both runs" if len(causes) == 2 else f"the {causes[0][0]} run"
    return f"the host was busy: {causes[0][1]}; repeat {runs} on an idle machine"
