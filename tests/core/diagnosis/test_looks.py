"""What the agent saw when it looked at the process: tracing, counts that grow, subnormal numbers;
page faults, and types of numbers that the processor does not have."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import ranked
from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.symptoms.operators import slow_values
from perftui.facts.fact import Facts
from perftui.run.columns import EVENT_COLUMNS
from perftui.run.journal import Column
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from tests.core.diagnosis import test_operator_work as operator_work
from tests.core.diagnosis.runs import (
    MS,
    NOTE,
    ON_GPU,
    call,
    joined,
    make_run,
    ops,
    run_of,
    source_of,
    step_table,
    telemetry_table,
    trained,
    with_tables,
)
from tests.core.diagnosis.stories import diagnosed, finding_of, found, launching, reasons
from tests.step_rows import table_of
from tests.traces.builder import TraceBuilder, us

INFO, WARNING, CRITICAL = Severity.INFO, Severity.WARNING, Severity.CRITICAL

STEPS = 100


def looks(*data: dict[str, Any], **others: dict[str, Any]) -> Table:
    """Looks at equal distances, and other notes by kind before them."""
    notes = [(kind, 0, note) for kind, note in others.items()]
    for at, look in enumerate(data):
        notes.append(("look", at * STEPS // len(data), look))
    rows = [[step * MS, kind, 0, step, note] for kind, step, note in notes]
    return table_of(EVENT_COLUMNS, rows)


TRACES = {"by": "sys.settrace", "name": "remember", "file": "/p/train.py", "line": 13}


def traced(*seen: dict[str, Any], **noted: Any) -> Facts:
    """Half of each step of 10 ms is Python within forward."""

    def step(t: TraceBuilder) -> None:
        ops(t.forward(), *["aten::mul"] * 10, each=500, gap=500).close()

    facts = trained(step, {"forward": 10})
    assert facts.run is not None
    process = {"python": "3.13.1", "argv0": "train.py"}
    events = looks(*seen, process=process, settings={**NOTE, **noted})
    run = replace(facts.run, ranks=(replace(facts.run.ranks[0], events=events),))
    return Facts(run, facts.analysis)


def test_tracing_is_named_with_the_function_the_line_and_its_cost() -> None:
    place = {"settrace": ["/p/train.py", 19]}
    facts = traced(*[{"tools": [TRACES], "slowed": 0.22}] * 3, places=place)
    finding = finding_of(facts, "debug-flags")
    assert finding.sentence == (
        "Each call and line is traced by remember (sys.settrace) at train.py:19, which takes at "
        "least 2.2 ms of each 10 ms step (22 %)."
    )
    assert (source_of(finding), finding.is_least) == ("/p/train.py:19", True)
    assert diagnosed(facts).findings[0] == finding


def test_a_tracer_without_a_line_is_placed_at_its_function_and_a_class_nowhere() -> None:
    assert source_of(finding_of(traced({"tools": [TRACES]}), "debug-flags")) == "/p/train.py:13"
    profiler = {"by": "sys.setprofile", "name": "cProfile.Profile"}
    finding = finding_of(traced({"tools": [profiler], "slowed": 0.08}), "debug-flags")
    assert finding.sentence.startswith("Each call is traced by cProfile.Profile (sys.setprofile), ")
    assert finding.place is None


@pytest.mark.parametrize(
    ("seen", "level"),
    [
        (({"tools": [TRACES], "slowed": 0.22},) * 2, CRITICAL),
        # Twice at one of three looks, and in the warm-up alone.
        (({}, {"tools": [TRACES] * 2, "slowed": 0.22}, {"tools": []}, {}), WARNING),
        (({"tools": [TRACES], "slowed": 0.22}, {"tools": []}), None),
        # A tool that does not slow other Python than what it is for.
        (({"tools": [{"by": "sys.monitoring", "name": "coverage"}], "slowed": 0.022},), INFO),
        (({"tools": [{"by": "tracemalloc"}], "slowed": 0.07},), WARNING),
        (({"tools": [{"by": "gc.set_debug"}], "slowed": 0.022},), INFO),
        # A slow processor alone is none.
        (({"slowed": 0.1},), None),
        (({"tools": None},), None),
    ],
)
def test_how_much_python_is_slowed(seen: tuple[dict[str, Any]], level: Severity | None) -> None:
    finding = found(traced(*seen), "debug-flags")
    assert (finding and finding.severity) == level


@pytest.mark.parametrize("late", [True, False])
def test_on_a_gpu_tracing_costs_what_the_host_holds_it_up(late: bool) -> None:
    events = looks(*[{"tools": [TRACES], "slowed": 0.22}] * 3, process={"python": "3.13.1"})
    run = with_tables(make_run(100, {"forward": 1}, **ON_GPU), events=events)
    judged = diagnosed(launching(length=2, late=late), run)
    finding = found(judged, "debug-flags")
    assert finding is not None
    assert finding.cost_ns == (us(360) if late else 0)
    assert (judged.findings[0] == finding) is late


def costing(rule: str, cost: int, *parts: str) -> Finding:
    return Finding(rule, CRITICAL, rule, (), cost, step_ns=100, steps=100, parts=parts)


def test_what_slows_python_comes_before_what_it_makes_longer() -> None:
    tracing = costing("debug-flags", 23, "other", "python in optimizer")
    update = costing("optimizer-single-tensor", 45, "optimizer", "python in optimizer")
    wait = costing("input-in-main-thread", 45, "input_wait")
    assert ranked([update, tracing]) == (tracing, update)
    assert ranked([wait, tracing]) == (wait, tracing)


def rising(*, hooks: tuple[int, ...], name: str = "keep", more: float = 1) -> RunSnapshot:
    """Forward takes so many ms more in each step."""
    steps = joined(*(step_table(1, {"forward": 50 + at * more}) for at in range(STEPS)))
    hook = {"name": f"Reader.{name}", "file": "/p/train.py", "line": 3}
    counts = [{"counts": {"forward hooks": count, "threads": 1}, "hook": hook} for count in hooks]
    return run_of(steps, events=looks(*counts, process={"argv0": "train.py"}))


SCRIPT = """def keep(module, args, out):
    pass

def step(model, x):
    model.register_forward_hook(other)
    model.register_forward_hook(keep)
"""


def test_hooks_that_pile_up_are_why_steps_grow(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(SCRIPT)
    run = rising(hooks=(3, 40, 80))
    run = replace(run, manifest=replace(run.manifest, cwd=str(tmp_path)))
    finding = finding_of(run, "growing-steps")
    assert finding.sentence.endswith(
        ", since forward hooks pile up: 3 at first, 80 at last, added at train.py:6."
    )
    assert source_of(finding) == f"{tmp_path}/train.py:6"
    assert "handle.remove()" in finding.advice


@pytest.mark.parametrize(
    ("hooks", "piles"),
    [((3, 8, 13), True), ((3, 8, 12), False), ((3, 90, 90, 90), False), ((80, 3, 90), False)],
)
def test_numbers_that_settle_or_fall_do_not_pile_up(hooks: tuple[int, ...], piles: bool) -> None:
    assert ("pile up" in finding_of(rising(hooks=hooks), "growing-steps").sentence) is piles
    finding = found(rising(hooks=hooks, more=0), "growing-steps")
    assert (finding and finding.severity) == (INFO if piles else None)


def test_a_hook_for_each_step_is_a_fault_even_where_steps_do_not_grow_yet() -> None:
    finding = finding_of(rising(hooks=(3, STEPS // 2, STEPS), more=0), "growing-steps")
    assert (finding.severity, finding.cost_ns) == (WARNING, 0)


def window(size: int, **more: Any) -> dict[str, Any]:
    return {"bytes": size, "steps": 1, **more}


@pytest.mark.parametrize(
    ("last", "are_same"),
    [(window(1190), True), (window(1210), False), (window(900, asked=["shapes"]), False)],
)
def test_steps_that_grow_with_as_many_calls_keep_no_graphs(
    last: dict[str, Any], are_same: bool
) -> None:
    steps = joined(*(step_table(1, {"backward": 50 + at}) for at in range(STEPS)))
    windows = [[0, "window", 0, 0, note] for note in (window(1000), last)]
    sentence = finding_of(run_of(steps, events=table_of(EVENT_COLUMNS, windows)), "growing-steps")
    assert sentence.sentence.endswith(", with as many calls as at first.") is are_same
    assert ("graphs of earlier steps are kept" in sentence.sentence) is not are_same


def test_a_clock_that_falls_is_why_steps_grow() -> None:
    run = rising(hooks=(3, 3))
    rows = [[at * STEPS * 100 * MS // 20, 3000.0 - 40 * at] for at in range(20)]
    clocks = table_of((Column("time"), Column("cpu.frequency")), rows, floats=True)
    finding = finding_of(replace(run, telemetry={"box": clocks}), "growing-steps")
    assert finding.sentence.endswith(", while the processor's clock falls from 3,000 to 2,280 MHz.")


def subnormal(*shares: float, slow: float = 40) -> Facts:
    """Steps of 10 ms, and from the middle on of so many."""
    steps = joined(
        step_table(STEPS // 2, {"forward": 6, "backward": 4}),
        step_table(STEPS // 2, {"forward": slow * 0.6, "backward": slow * 0.4}),
    )
    data = [{"subnormal": [round(share * 1000), 1000]} for share in shares]
    return Facts(run_of(steps, events=looks(*data)))


def test_steps_that_take_longer_since_numbers_are_subnormal() -> None:
    finding = finding_of(subnormal(0, 0, 0.3, 0.4), "subnormal-numbers")
    assert finding.sentence == (
        "Steps take 40 ms instead of 10 ms since numbers became subnormal, too small for the "
        "processor's fast path: 40 % of the values read in parameters and gradients are subnormal."
    )
    assert finding.severity is CRITICAL
    assert finding.cost_ns == 30 * MS
    assert found(subnormal(0, 0, 0.3, 0.4), "growing-steps") is None


@pytest.mark.parametrize(
    ("shares", "slow", "level"),
    [
        ((0, 0, 0.01, 0.4), 40, CRITICAL),
        ((0, 0, 0.009, 0.009), 40, None),
        # Processors that take no longer for them, and a checkpoint that had them already.
        ((0, 0, 0.3, 0.4), 12, INFO),
        ((0.4, 0.4, 0.4, 0.4), 10, INFO),
        ((), 40, None),
    ],
)
def test_how_many_and_how_slow(shares: tuple[float], slow: float, level: Severity | None) -> None:
    finding = found(subnormal(*shares, slow=slow), "subnormal-numbers")
    assert (finding and finding.severity) == level


def faulting(system: float, faults: float) -> Facts:
    """A training that is in the kernel for so many percent of its time, with so many faults a step
    of 100 ms."""
    facts = operator_work.forward((2, 40, ("aten::mul",)))
    assert facts.run is not None
    used = {"processes.ranks_cpu": 100.0, "processes.ranks_system": system}
    telemetry = telemetry_table(**used, **{"processes.ranks_minor_faults": faults * 10})
    return Facts(replace(facts.run, telemetry={"box": telemetry}), facts.analysis)


def test_the_kernels_time_for_pages_is_lost() -> None:
    finding = finding_of(faulting(60, 100_000), "page-faults")
    assert finding.sentence == (
        "Linux takes 60 ms of each 100 ms step (60 %) to map 100,000 pages of memory anew, "
        "since large tensors are made and freed again at model.py:12."
    )
    assert finding.cost_ns == 60 * MS


@pytest.mark.parametrize(
    ("system", "faults", "level"),
    # Time in the kernel for anything else, and faults that cost nothing.
    [
        *((9, 100_000, None), (11, 100_000, Severity.INFO), (21, 100_000, WARNING)),
        *((60, 1_000, None), (0, 100_000, None)),
    ],
)
def test_how_much_of_it(system: float, faults: float, level: Severity | None) -> None:
    finding = found(faulting(system, faults), "page-faults")
    assert (finding and finding.severity) == level


def test_without_samples_of_faults_they_are_not_judged() -> None:
    judged = diagnosed(operator_work.forward())
    assert "were not sampled" in reasons(judged)["page-faults"]


def short_numbers(processor: list[str] | None, autocast: str = "bfloat16", isa: str = "") -> Facts:
    def step(t: TraceBuilder) -> None:
        t.forward()
        for _ in range(10):
            call(t, "aten::to", "aten::_to_copy", "aten::copy_", lasting=2000)
        call(t, "aten::linear", "aten::addmm", lasting=60_000)
        call(t, "aten::relu", lasting=20_000)
        t.close()

    note = {
        **NOTE,
        "processor": processor,
        "autocast": {"cpu": autocast} if autocast else None,
        "environment": {"ONEDNN_MAX_CPU_ISA": isa} if isa else {},
        "places": {"autocast": ["/p/train.py", 33]},
    }
    return trained(step, {"forward": 100}, *operator_work.LINES, note=note)


def test_numbers_that_a_processor_only_emulates() -> None:
    finding = finding_of(short_numbers([]), "emulated-precision")
    assert finding.sentence == (
        "Products in bfloat16 (autocast at train.py:33) and the conversions for them take 80 ms of "
        "each 100 ms step (80 %) at model.py:12: this processor has no instructions for that, so "
        "they are emulated."
    )
    assert finding.cost_ns == 50 * MS
    assert found(short_numbers([]), "dtype-churn") is None


def test_where_features_are_not_known_it_is_not_judged() -> None:
    judged = diagnosed(short_numbers(None))
    assert "what the processor can compute" in reasons(judged)["emulated-precision"]


def exponentials(lasting: int, *, sized: bool = True, called: str = "aten::exp") -> Facts:
    """exp() or another of 2**18 values in so many us, with products and sums in usual time, in
    10 ms steps."""
    sizes = {"Input Dims": [[512, 512], [512, 512]], "Input type": ["float"] * 2} if sized else {}

    def step(t: TraceBuilder) -> None:
        t.forward()
        for name, each in {called: lasting, "aten::mul": 300, "aten::add": 300}.items():
            t.op(name, 1000 * each, **sizes)
        t.op("aten::mm", 1000 * (9_400 - lasting))
        t.close()

    return trained(step, {"forward": 10}, ("/p/train.py", 12, "forward"))


@pytest.mark.parametrize(("lasting", "finds"), [(6_000, True), (1_500, False)])
def test_values_that_are_slow_to_compute_with_show_in_the_time_for_each_byte(
    lasting: int, finds: bool
) -> None:
    # 2.9 ns for each byte; 0.7, which is less than six times what others take.
    finding = found(exponentials(lasting), "subnormal-numbers")
    assert (finding is not None) is finds
    assert finding is None or ", 2.9 ns for each byte" in finding.sentence


def test_a_processor_that_takes_subnormal_numbers_is_slow_for_something_else(monkeypatch) -> None:
    products = exponentials(6_000, called="aten::div")
    monkeypatch.setattr(f"{slow_values.__name__}.cpu_name", lambda: products.manifest.cpu_name)
    for slowdown, finds in ((20.0, True), (1.0, False)):
        # Facts keep what was judged.
        judged = Facts(products.run, products.analysis)
        monkeypatch.setattr(slow_values, "subnormal_slowdown", lambda given=slowdown: given)
        assert bool(found(judged, "subnormal-numbers")) is finds


def test_sizes_are_asked_for_where_element_wise_operators_take_long() -> None:
    unsized = diagnosed(exponentials(6_000, sized=False)).abstentions
    assert ["shapes" in str(one.question) for one in unsized if one.rule == "subnormal-numbers"]
