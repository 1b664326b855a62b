"""What a comparison does not show, in words."""

from __future__ import annotations

from perftui.experiments.conditions import conditions, is_source_unknown
from perftui.facts.cpu.machine import busy_host, machine_use
from perftui.facts.fact import Facts

ONE_RUN_EACH = "one run each: no confidence interval"


def notes_of_runs(before: Facts, after: Facts) -> tuple[str, ...]:
    """Of two runs, one on each side."""
    notes = [ONE_RUN_EACH, "losses were not compared"]
    if None in (conditions(before).batch_size, conditions(after).batch_size):
        notes.append("whether a step has the same number of samples in both runs is not known")
    first, second = before.manifest, after.manifest
    if first and second and is_source_unknown(first, second):
        notes.append("both runs had uncommitted changes: whether the source is the same is unknown")
    for name, run in (("first", before), ("second", after)):
        use = machine_use(run)
        if why := busy_host(run):
            notes.append(f"the host was busy during the {name} run: {why}")
        elif use.tree_cores is None and use.pressure is None:
            notes.append(f"how busy the host was during the {name} run is not known")
    return tuple(notes)


def notes_of_traces(before: Facts, after: Facts) -> tuple[str, ...]:
    """Of two traces, or of a run beside one."""
    notes = ["one trace each: no confidence interval"]
    notes.append("profiled steps take longer than others")
    for name, side in (("first", before), ("second", after)):
        if side.run is not None:
            notes.append(f"only the newest window of the {name} run is compared")
        elif (properties := side.analysis) is not None and len(properties.ranks) > 1:
            notes.append(f"the {name} trace has several ranks")
    notes.append("a trace has no telemetry, losses or loader arguments")
    notes.append("whether a step is the same work on both sides is not known")
    return tuple(notes)
