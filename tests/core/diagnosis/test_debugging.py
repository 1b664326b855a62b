"""Switches left on, and what torch.compile costs."""

from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.model import Finding, Severity
from perftui.facts.fact import Facts
from perftui.run.columns import EVENT_COLUMNS, STACK_COLUMNS
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import (
    MS,
    ON_GPU,
    event_table,
    joined,
    make_run,
    run_of,
    source_of,
    step_table,
    with_tables,
)
from tests.core.diagnosis.stories import CALL, diagnosed, finding_of, found, training
from tests.step_rows import table_of
from tests.traces.builder import TraceBuilder, us


def settings(**known: Any) -> tuple[tuple[str, dict[str, Any]], ...]:
    return (("settings", known),)


def flags(story: TraceBuilder | None = None, **run: Any) -> Finding | None:
    facts = Facts(make_run(**run), story.analysis() if story else None)
    return found(facts, "debug-flags")


def launched(blocking: bool, kernels: int = 50) -> TraceBuilder:
    """Kernels of 10 us in 20 us each; a launch lasts until its kernel is over, or 2 us."""

    def step(t: TraceBuilder) -> None:
        t.step()
        for _ in range(kernels):
            begin = t.now
            call = us(15) if blocking else CALL
            t.launch("add", us(10), call=call, starts=begin + us(4)).at(begin + us(20))
        t.end()

    return training().repeat(4, step)


def call_by_call(
    call: int, kernels: tuple[int, ...] = (us(6),), delay: int = us(5), apart: int = us(40)
) -> TraceBuilder:
    """Launches of ``call``, each ``apart`` from the next, whose kernels begin ``delay`` later."""

    def step(t: TraceBuilder) -> None:
        t.step()
        for at in range(50):
            begin, kernel = t.now, kernels[at % len(kernels)]
            t.launch("gemv", kernel, call=call, starts=begin + delay).at(begin + apart)
        t.end()

    return training().repeat(4, step)


def blocking_calls(t: TraceBuilder) -> TraceBuilder:
    """Short kernels of 2 and 8 us, whose launches last 8 us longer than they do."""
    t.step()
    for at in range(50):
        begin, kernel = t.now, us(2 + 6 * (at % 2))
        t.launch("add", kernel, call=us(8) + kernel, starts=begin + us(5)).at(begin + us(40))
    return t.end()


def checked(gradients: int = 10) -> TraceBuilder:
    """A backward pass whose gradients are looked through, 50 us each, in steps of 1 ms."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().backward()
        for _ in range(gradients):
            t.op("autograd::engine::evaluate_function: MulBackward0").op("MulBackward0", us(5))
            t.op("aten::isnan", us(20)).op("aten::_is_any_true", us(20)).op("aten::item", us(10))
            t.close()
        t.at(begin + us(1000)).end()

    return TraceBuilder().repeat(4, step)


def test_launches_that_grow_with_their_short_kernels_wait_for_them_and_come_first() -> None:
    story = training().repeat(4, blocking_calls)
    assert finding_of(story, "debug-flags").rule == "debug-flags"
    rules = [each.rule for each in diagnosed(launched(blocking=True, kernels=120)).findings]
    assert rules[0] == "debug-flags"


def test_gradients_that_are_looked_through_tell_of_anomaly_detection() -> None:
    finding = flags(checked(), phases={"forward": 0.1, "backward": 0.9})
    assert finding.sentence == (
        "Anomaly detection is on: it checks 10 gradients in each step, which takes at least "
        "700 µs of each 1.0 ms step (70 %)."
    )
    # Each of the 10 operators writes down its stack besides, in 20 us at least.
    assert finding.cost_ns == 700_000


def sampled(run: RunSnapshot, *inner: str) -> RunSnapshot:
    """The run with samples at train.py:9, one each 10 ms, of these innermost frames."""
    rows = [
        [at * 10 * MS, 10 * MS, 1, "train.py", 9, "main", one, 10 * MS, "", ""]
        for at, one in enumerate(inner)
    ]
    return with_tables(run, stacks=table_of(STACK_COLUMNS, rows))


def test_stacks_that_are_written_down_count_too() -> None:
    writing = ("python3.12/traceback.py:430 walk", *["train.py:9 main"] * 3) * 10
    run = sampled(make_run(events=settings(modes={"anomaly": True})), *writing)
    finding = found(run, "debug-flags")
    assert "Anomaly detection is on, which takes at least 2.5 ms of each" in finding.sentence
    assert finding.gain == "1.33x faster or more"
    assert finding.gain_mark == "≥1.33x"


@pytest.mark.parametrize(
    ("known", "said"),
    [
        ({"modes": {"anomaly": True}}, "Anomaly detection is on."),
        ({"modes": {"deterministic": True}}, "Only deterministic algorithms"),
        ({"environment": {"TORCH_LOGS": "+dynamo"}}, "TORCH_LOGS=+dynamo is set."),
        ({"environment": {"TORCH_DISTRIBUTED_DEBUG": "DETAIL"}}, "TORCH_DISTRIBUTED_DEBUG=DETAIL"),
    ],
)
def test_what_is_set_is_said_though_nothing_tells_its_cost(known: Any, said: str) -> None:
    finding = flags(events=settings(**known))
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert finding.sentence.startswith(said)


def test_on_a_gpu_launches_that_wait_are_said_without_a_window() -> None:
    finding = flags(**ON_GPU, events=settings(environment={"CUDA_LAUNCH_BLOCKING": "1"}))
    assert finding.sentence.startswith("CUDA_LAUNCH_BLOCKING is set: every launch waits")


def test_the_line_that_sets_it_is_found_in_the_script(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        '"""No detect_anomaly(\n"""\n# detect_anomaly(\ntorch.autograd.set_detect_anomaly(True)\n'
    )
    events = (("process", {"argv0": "train.py"}), *settings(modes={"anomaly": True}))
    finding = flags(events=events, cwd=str(tmp_path))
    assert (finding.place.file, finding.place.line) == (str(script), 4)
    noted = settings(modes={"anomaly": True}, places={"set_detect_anomaly": ["/p/other.py", 7]})
    by_note = flags(events=(events[0], *noted), cwd=str(tmp_path))
    assert by_note.place.source == "/p/other.py:7"
    changed_later = flags(events=events, cwd=str(tmp_path), started_ns=1)
    assert changed_later.place is None


def allocating(every: int, *, frees: bool = True) -> TraceBuilder:
    """Calls of the driver of so many us in each step of 1 ms, before the GPU computes."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().malloc(us(every))
        if frees:
            t.call("cudaFree", us(1), "allocation")
        t.launch("gemm", begin + us(1000) - t.now, call=CALL, starts=t.now)
        t.at(begin + us(1000)).end()

    return training().repeat(4, step)


def profiling(samples: int = 40) -> Finding | None:
    """Of a script that runs a profiler; half of its samples find it there."""
    message = "the script runs its own profiler: no windows meanwhile"
    run = make_run(events=(("warning", {"message": message}),))
    inner = ("x", "torch/autograd/profiler.py:418 profile.__exit__") * samples
    return found(sampled(run, *inner[:samples]), "profiler-overhead")


def test_a_profiler_of_the_script_is_named_by_fifteen_samples() -> None:
    finding = profiling()
    assert finding.sentence == (
        "The script runs its own profiler at train.py:9, which takes 5.0 ms of each 10 ms step "
        "(50 %): perftui cannot profile a window meanwhile."
    )
    enough, too_few = profiling(15), profiling(14)
    assert (enough.cost_ns, too_few.cost_ns) == (round(10 * MS * 7 / 15), 0)


def profiled(lasting: int) -> TraceBuilder:
    """Steps of 1 ms, so many us of them in the profiler that recorded them."""

    def step(t: TraceBuilder) -> None:
        rest = us(1000 - lasting)
        t.step().launch("gemm", rest, call=CALL, starts=t.now).pause(rest - CALL)
        t.phase("profiler", us(lasting)).end()

    return training().repeat(20, step)


SECOND = 1000 * MS


def compiling(seconds: float, first: float = 5, steps: int = 60, **run: Any) -> RunSnapshot:
    """A first step of so many seconds, in which torch compiles, and then short ones."""
    notes = [
        [0, "compile", round(length * SECOND), 0, {"start": SECOND // 10, "forward": forward}]
        for length, forward in ((seconds, True), (seconds / 2, False))
    ]
    parts = (step_table(1, {"forward": first * 1000}), step_table(steps, {"forward": 100}))
    events = table_of(EVENT_COLUMNS, notes)
    return run_of(joined(*parts), events=events, **{"started_ns": 0, **run})


def test_it_is_reported_with_the_steps_that_would_pay() -> None:
    finding = found(compiling(4), "compile-not-paid")
    assert finding.sentence == (
        "torch.compile took 4.0 s, 36 % of the run: with the usual gain that pays off after 93 "
        "steps, and this run had 61."
    )
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert finding.facts[-1].value == 100 * MS + 4 * SECOND // 61


STEPS = step_table(40, {"forward": 10, "backward": 10})


def compiled(*functions: str, file: str = "/p/model.py") -> RunSnapshot:
    notes = [
        ("compile", {"start": at, "function": name, "file": file, "forward": True})
        for at, name in enumerate(functions)
    ]
    return run_of(STEPS, events=event_table(events=notes))


def test_each_line_is_named_once() -> None:
    finding = finding_of(
        compiled(
            "forward",
            "torch_dynamo_resume_in_forward_at_10",
            "torch_dynamo_resume_in_forward_at_13",
            "torch_dynamo_resume_in_forward_at_10",
        ),
        "graph-breaks",
    )
    assert finding.sentence == (
        "torch.compile breaks the graph at 2 lines: model.py:10, model.py:13."
    )
    assert (finding.severity, source_of(finding)) == (Severity.INFO, "/p/model.py:10")
    assert [figure.value for figure in finding.facts] == [2, 1]
