"""Each epoch starts the data loader, and its workers, anew."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.model import Figure
from perftui.diagnosis.rule import Claim, Limits, Lost, Rule
from perftui.diagnosis.symptoms.data_figures import workers
from perftui.facts.fact import Facts
from perftui.facts.loader import LoaderFacts, training_loader
from perftui.facts.loader_work import loader_starts
from perftui.facts.steps import steady_step


def _lost(facts: Facts) -> Lost | None:
    """Starts after the first. A trace is not asked: a window of some steps holds no two epochs."""
    if facts.run is None:
        return None
    step, again, feeds = steady_step(facts), loader_starts(facts), training_loader(facts)
    if again is None:
        return None
    share = again.per_step / step.mean
    return Lost(
        again.per_step,
        step,
        f"Starting the loader again takes {fmt.part_of_step(again.per_step, step.mean)}"
        f"{_because(feeds)}.",
        (
            Figure.share("starting the loader again", share, LOADER_START.limits.warning),
            Figure("mean start", again.mean, "ns"),
            Figure("starts after the first", again.count, "count"),
            Figure("mean step", step.mean, "ns"),
            Figure("steady steps", step.count, "count"),
            *workers(facts),
        ),
        fixes=LOADER_START.fixes if _starts_anew(feeds) else (),
    )


def _starts_anew(feeds: LoaderFacts | None) -> bool:
    """Whether the loader is known to start its workers anew with each epoch."""
    return feeds is not None and bool(feeds.num_workers) and feeds.persistent_workers is False


def _because(feeds: LoaderFacts | None) -> str:
    """The cause, where the loader's arguments are known and tell it."""
    if feeds is None or not feeds.num_workers or not _starts_anew(feeds):
        return ""
    several = fmt.several(feeds.num_workers, "worker")
    verb = "starts" if feeds.num_workers == 1 else "start"
    return f": {several} {verb} anew with each epoch, unless persistent_workers=True keeps them"


LOADER_START = Rule(
    id="loader-start",
    when="the loader is started anew for each epoch",
    explanation=(
        "Each epoch begins with new worker processes, which import the script and fill their "
        "queue before the first batch is there. persistent_workers=True keeps them."
    ),
    lost=_lost,
    limits=Limits(0.05, 0.20, "As certain to be avoidable as a loader without workers."),
    claims=Claim(phase="loader_start"),
    fixes=("loader-persistent",),
    answer="workers that stay",
)
