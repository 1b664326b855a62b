"""What each side of a training costs, as text and as plain values."""

from __future__ import annotations

import math
from typing import Annotated, TypedDict

from msgspec import Meta

from perftui import format as fmt
from perftui.experiments.isolate import Isolated, Isolation, Side
from perftui.report.encode import Schema
from perftui.run.reader import RunSnapshot
from perftui.trace.text import printable

Middle = Annotated[int | None, Meta(description="Median of the runs, ns; null if there is none.")]


class SideOutput(TypedDict):
    """The training with one part left out."""

    side: Side
    what: Annotated[str, Meta(description="What was done, in words.")]
    step_ns: Middle
    runs_ns: Annotated[
        list[int],
        Meta(
            description="Per run, ns per step; for the loader alone, ns for the batches of a step."
        ),
    ]
    at_most: Annotated[
        float | None,
        Meta(description="The unchanged step time over that: the speed-up without the whole part."),
    ]
    sentence: str
    problem: Annotated[str | None, Meta(description="Why it has no time.")]


class IsolationOutput(TypedDict):
    """`perftui isolate`: what each part of a training costs at most."""

    schema: Schema
    run: Annotated[str, Meta(description="Identifier of the run that was repeated.")]
    step_ns: Middle
    runs_ns: Annotated[list[int], Meta(description="The unchanged step time, ns, in each run.")]
    sides: list[SideOutput]


SCHEMA = 1

NOTHING = 1.05
"""Times as fast, below which a side has nothing to give: three runs show no less."""

FROM = {
    Side.INPUT: "a faster data loader",
    Side.TRAINING: "everything but the loader",
    Side.WORKER: "a loader of one worker",
    Side.OUTPUT: "less printing, logging and saving",
}
"""What a gain would come from."""


def text(found: Isolation) -> str:
    """The step as it is, then a line for each side."""
    whole = found.step_ns
    if whole is None:
        return "no run finished\n"
    lines = [f"a step takes {fmt.duration(whole)} unchanged ({_apart(found.as_it_is)})"]
    lines += [f"  {_line(one, found)}" for one in found.sides]
    return "\n".join(map(printable, lines)) + "\n"


def as_object(found: Isolation, run: RunSnapshot) -> IsolationOutput:
    """The isolation as JSON; times are integer nanoseconds."""
    return {
        "schema": SCHEMA,
        "run": run.manifest.run_id,
        "step_ns": found.step_ns,
        "runs_ns": list(found.as_it_is),
        "sides": [_side(one, found) for one in found.sides],
    }


def _side(one: Isolated, found: Isolation) -> SideOutput:
    return {
        "side": one.experiment.side,
        "what": one.experiment.what,
        "step_ns": one.step_ns,
        "runs_ns": list(one.times),
        "at_most": _ratio(one, found),
        "sentence": _sentence(one, found),
        "problem": one.problem or None,
    }


def _line(one: Isolated, found: Isolation) -> str:
    if one.step_ns is None:
        return f"{one.experiment.what}: not measured: {one.problem or 'no run finished'}"
    each = " for the batches of a step" if one.experiment.times_batches else ""
    took = f"{fmt.duration(one.step_ns)}{each} ({_apart(one.times)})"
    return f"{one.experiment.what}: {took}; {_sentence(one, found)}"


def _sentence(one: Isolated, found: Isolation) -> str:
    """The result of one part; empty if it was not measured."""
    ratio = _ratio(one, found)
    if ratio is None or one.step_ns is None:
        return ""
    if one.experiment.side is Side.WORKER:
        return _workers(one.step_ns, found)
    what = FROM[one.experiment.side]
    is_clear = ratio >= NOTHING and max(one.times) < min(found.as_it_is)
    return f"at most {ratio:.2f}x from {what}" if is_clear else f"nothing from {what}"


def _workers(worker_ns: int, found: Isolation) -> str:
    """How many workers would keep up, where the step without its loader is known."""
    step = next((one.step_ns for one in found.sides if one.experiment.side is Side.INPUT), None)
    if step is None:
        return "how many workers would keep up is not known"
    count = math.ceil(worker_ns / step)
    verb = "keeps" if count == 1 else "keep"
    return f"{fmt.several(count, 'worker')} {verb} up with a step of {fmt.duration(step)}"


def _ratio(one: Isolated, found: Isolation) -> float | None:
    whole, step = found.step_ns, one.step_ns
    return whole / step if whole is not None and step else None


def _apart(times: tuple[int, ...]) -> str:
    """``11 to 12 ms in 3 runs``."""
    runs = fmt.several(len(times), "run")
    return f"{fmt.duration(min(times))} to {fmt.duration(max(times))} in {runs}"
