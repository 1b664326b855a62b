"""What differs between the conditions of two runs: machine, versions, source and command."""

from __future__ import annotations

import enum
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perftui.facts.fact import Facts
from perftui.run.manifest import Manifest

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


def differences(before: Facts, after: Facts) -> tuple[Difference, ...]:
    """The conditions that differ, those that forbid a comparison first; empty unless both are runs.

    What is unknown of one run is no difference.
    """
    if before.manifest is None or after.manifest is None:
        return ()
    one, other = (str(training_processes(run)) for run in (before, after))
    found = [
        *_differ("training processes", one, other, Effect.NOT_COMPARABLE),
        *_machine(before.manifest, after.manifest),
        *_versions(before.manifest, after.manifest),
        *_command(before.manifest.command, after.manifest.command),
        *_differ("commit", _source(before.manifest), _source(after.manifest), Effect.SOURCE),
    ]
    order = [Effect.NOT_COMPARABLE, Effect.PARTLY, Effect.SOURCE]
    return tuple(sorted(found, key=lambda one: order.index(one.effect)))


def training_processes(run: Facts) -> int:
    """How many processes train side by side; 1 before any has written anything."""
    return run.run.world if run.run and run.rank else 1


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


def _machine(before: Manifest, after: Manifest) -> Iterator[Difference]:
    kinds = [sorted(set(one.gpus)) for one in (before, after)]
    # A run on a machine whose driver does not answer lists no GPU, but may use one.
    others = all(kinds) and kinds[0] != kinds[1]
    effect = Effect.NOT_COMPARABLE if others else Effect.PARTLY
    yield from _differ(_GPU, _cards(before.gpus), _cards(after.gpus), effect)
    computes = not (before.gpus or after.gpus)
    effect = Effect.NOT_COMPARABLE if computes else Effect.PARTLY
    yield from _differ(_CPU, before.cpu_name, after.cpu_name, effect)
    old, new = (str(one.cpu_count or "") for one in (before, after))
    yield from _differ("cores", old, new, Effect.PARTLY)
    yield from _differ("host", before.host, after.host, Effect.PARTLY)


def _cards(names: Sequence[str]) -> str:
    """``4x NVIDIA H200``, of several kinds each."""
    numbered = {name: names.count(name) for name in sorted(names)}
    cards = (f"{count}x {name}" if count > 1 else name for name, count in numbered.items())
    return ", ".join(cards) or "none"


def _versions(before: Manifest, after: Manifest) -> Iterator[Difference]:
    for what, name in (
        ("torch", "torch_version"),
        ("Python", "python_version"),
        ("perftui", "perftui_version"),
    ):
        old, new = getattr(before, name), getattr(after, name)
        yield from _differ(what, old, new, Effect.PARTLY)


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


def _differ(
    what: str, before: str | None, after: str | None, effect: Effect
) -> Iterator[Difference]:
    if before and after and before != after:
        yield Difference(what, before, after, effect)
