"""Whether a change reached the loader that feeds the training."""

from __future__ import annotations

from collections.abc import Mapping

from perftui.experiments.figures import RunFigures
from perftui.facts.loader import LoaderFacts

ARGUMENTS = ("num_workers", "pin_memory", "persistent_workers", "prefetch_factor", "batch_size")


def effective_changes(before: RunFigures, after: RunFigures) -> tuple[str, ...]:
    """Arguments of the training's loader that differ, such as ``num_workers 0 -> 2``."""
    if before.loader is None or after.loader is None:
        return ()
    return tuple(
        f"{name} {old} -> {new}"
        for name in ARGUMENTS
        if (old := getattr(before.loader, name)) != (new := getattr(after.loader, name))
    )


def missed(after: RunFigures) -> str:
    """Which arguments that a fix gave the run did not reach its loader and why, empty where all
    did."""
    manifest, loader = after.manifest, after.loader
    overrides = (o.arguments for o in manifest.overrides if o.target == "DataLoader")
    tried = {name: value for arguments in overrides for name, value in arguments.items()}
    if not tried and not manifest.expected:
        return ""
    if loader is None:
        return "the run does not say what became of the change"
    if lost := _lost(loader, tried):
        why = loader.override if loader.override not in (None, "applied") else None
        return _no_effect(lost, why or "not made at that line")
    if lost := _lost(loader, manifest.expected):
        return _no_effect(lost, "what was written to the source does not decide")
    return ""


def _lost(loader: LoaderFacts, wanted: Mapping[str, object]) -> list[str]:
    return [name for name, value in wanted.items() if getattr(loader, name, None) != value]


def _no_effect(lost: list[str], why: str) -> str:
    return f"{', '.join(lost)} had no effect at the training's loader ({why})"
