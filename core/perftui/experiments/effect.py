"""Whether a change reached the loader that feeds the training."""

from __future__ import annotations

from perftui.diagnosis.loader_facts import LoaderFacts
from perftui.experiments.figures import RunFigures

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
    """Which overrides of the run did not reach its loader and why, empty where all did."""
    wanted = [o for o in after.manifest.overrides if o.target == "DataLoader"]
    if not wanted:
        return ""
    loader = after.loader
    if loader is None:
        return "the run does not say what became of the change"
    arguments = {name: value for override in wanted for name, value in override.arguments.items()}
    lost = [name for name, value in arguments.items() if _in_force(loader, name) != value]
    if not lost:
        return ""
    why = loader.override if loader.override not in (None, "applied") else "not made at that line"
    return f"{', '.join(lost)} had no effect at the training's loader ({why})"


def _in_force(loader: LoaderFacts, name: str) -> object:
    return getattr(loader, name, None)
