"""The script's own Python, and where the main thread is."""

from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.model import Gap, GapCause, TraceAnalysis
from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Confidence, Finding, Severity
from perftui.diagnosis.symptoms.script.python_bound import script_python
from perftui.facts.cpu.machine import core_wait
from perftui.facts.fact import Facts
from perftui.facts.gpu.idle import gap_lines, line_of_gap
from perftui.facts.notes import notes
from perftui.facts.source.lines import (
    FEWEST_SAMPLES,
    MOST_LINES,
    lines_by_time,
    main_thread,
    saves,
    stack_samples,
    words_of,
)
from perftui.facts.step.judged_step import judged_step
from perftui.facts.step.steps import steady
from perftui.report import as_json
from perftui.report.report import make_report
from perftui.report.subject import Subject
from perftui.report.text import render
from perftui.run.columns import FORWARD, NO_STACKS, OPTIMIZER
from perftui.run.reader import RunSnapshot
from perftui.trace.model import NONE, Int64
from tests.core.diagnosis.runs import (
    MS,
    ORIGIN,
    RATE,
    Seen,
    at_wall,
    run_of,
    run_with,
    source_of,
    stack_table,
    step_table,
)
from tests.core.diagnosis.stories import diagnosed, finding_of, training
from tests.described import described
from tests.facts_given import facts_with
from tests.traces.builder import us

JSON = "python3.12/json/__init__.py dumps"
STEPS = 60


def logging(other: float, *lines: tuple[float, int, str, str]) -> RunSnapshot:
    """Steps of 100 ms, ``other`` of them outside the phases; there by share, line, function and
    what it calls."""
    forward = 100 - other
    seen = []
    for start in range(0, 100 * STEPS, 100):
        seen.append(Seen(start, forward, 40, FORWARD, via="torch/nn/modules/module.py call"))
        at = start + forward
        for share, line, function, via in lines:
            seen.append(Seen(at, share * other, line, function=function, via=via))
            at += share * other
    return run_of(step_table(STEPS, {"forward": forward, "other": other}), *seen)


def test_the_function_and_what_it_does_are_named() -> None:
    finding = finding_of(
        logging(
            50,
            (0.3, 15, "report", JSON),
            (0.2, 16, "report.<locals>.<genexpr>", ""),
            (0.4, 31, "<module>", ""),
            (0.1, 32, "<module>", ""),
        ),
        "python-bound",
    )
    assert finding.sentence == (
        "The script's own Python takes 50 ms of each 100 ms step (50 %): 50 % of it is writing "
        "JSON, in report (train.py:15)."
    )
    assert (finding.cost_ns, finding.step_ns, finding.steps) == (50 * MS, 100 * MS, STEPS)
    assert (finding.severity, source_of(finding)) == (Severity.CRITICAL, "/p/train.py:15")
    assert finding.confidence is Confidence.MEDIUM
    assert finding.would_raise_confidence == "a profiled window that shows the operators"


def test_what_the_model_computes_is_not_to_be_left_out_of_some_steps(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    run = logging(50, (1, 15, "report", JSON))
    own = script_python(Facts(run))
    in_model = replace(own, at=replace(own.at, in_forward=0.6))
    where = "perftui.diagnosis.symptoms.script.python_bound.script_python"
    monkeypatch.setattr(where, lambda _: in_model)
    assert finding_of(run, "python-bound").advice.startswith("compute once what stays the same")


@pytest.mark.parametrize(("via", "cost"), [(JSON, 25), ("python3.12/subprocess.py run", 50)])
def test_a_thread_that_only_waits_has_not_waited_for_a_core(via: str, cost: int) -> None:
    facts = facts_with(Facts(logging(50, (1, 15, "pause", via))), {core_wait: 0.5})
    assert finding_of(facts, "python-bound").cost_ns == cost * MS


def test_the_largest_part_does_not_say_it_again() -> None:
    diagnosis = diagnosed(logging(50, (1, 15, "report", JSON)))
    assert [finding.rule for finding in diagnosis.findings] == ["python-bound"]


REDUCE = "torch/distributed/c10d_logger.py _exception_logger.<locals>.wrapper"


def test_waiting_for_other_ranks_is_none_of_the_scripts_own_python() -> None:
    run = logging(50, (0.9, 15, "average", REDUCE), (0.1, 16, "average", JSON))
    assert finding_of(run, "python-bound").cost_ns == 5 * MS


def reducing(calls: int) -> Facts:
    """Steps of 100 ms, half of them in collectives that a function of the script calls."""
    run = logging(50, (1.0, 15, "average", REDUCE))
    story = training()
    for _ in range(4):
        story.step().forward().op("aten::mm", us(50_000)).close()
        for _ in range(calls):
            story.op("c10d::allreduce_", us(50_000 // calls))
        story.end()
    return Facts(run, story.analysis())


@pytest.mark.parametrize(("calls", "words"), [(10, "10 collectives of each step"), (8, "in coll")])
def test_collectives_of_the_scripts_own_name_their_line(calls: int, words: str) -> None:
    finding = diagnosis(reducing(calls)).top
    assert (finding.rule, finding.cost_ns) == ("communication-exposed", 50 * MS)
    assert words in finding.sentence
    assert source_of(finding) == "/p/train.py:15"


def test_copies_are_the_scripts_own_and_what_torch_is_called_for_is_not() -> None:
    finding = finding_of(
        logging(20, (1, 15, "loss", "torch/nn/functional.py mse_loss")), "python-bound"
    )
    assert finding.place is None
    run = logging(20, (1, 15, "<module>", "python3.12/copy.py deepcopy"))
    assert (
        "copying objects (copy.deepcopy), at train.py:15"
        in finding_of(run, "python-bound").sentence
    )


def test_a_logger_that_a_framework_calls_is_named_by_the_line_that_trains() -> None:
    steps = step_table(STEPS, {"forward": 60, "other": 40})
    row = Seen(60, 40, 90, via="lightning/trainer.py fit", inner="wandb/sdk/run.py:7 log")
    logged = [row._replace(start=100 * at + 60) for at in range(STEPS)]
    computed = [Seen(100 * at, 60, 90, FORWARD, via="lightning/trainer.py") for at in range(STEPS)]
    finding = finding_of(run_of(steps, *logged, *computed), "python-bound")
    assert finding.sentence.endswith("is reporting to Weights & Biases, at train.py:90.")


@pytest.mark.parametrize(
    ("function", "via", "cost"),
    [
        ("<module>", "python3.12/statistics.py mean", 25),
        ("report", "python3.12/statistics.py mean", 50),
        ("<module>", "python3.12/copy.py deepcopy", 50),
        ("report", "", 25),
    ],
)
def test_operators_count_only_in_what_is_none_of_the_models_work(function, via, cost) -> None:
    """Half of what is outside of the phases runs operators."""
    found = with_operators(logging(50, (1, 15, function, via)))
    assert found.cost_ns == cost * MS
    assert found.confidence is Confidence.HIGH


def with_operators(run: RunSnapshot) -> Finding:
    """What is said with a window in which half of what is outside of the phases runs operators."""
    window = training().repeat(
        3,
        lambda t: (
            t.step().forward(us(10)).phase("other").op("aten::mul", us(50)).pause(us(50)).end()
        ),
    )
    found = diagnosis(Facts(run, window.analysis())).findings
    return next(one for one in found if one.rule == "python-bound" and "other" in one.parts)


def test_a_loop_of_its_own_may_call_operators_and_what_the_framework_does_for_it_has_its_line(
    tmp_path,
) -> None:
    script = tmp_path / "train.py"
    script.write_text("def penalty(weights):\n    return [svdvals(one) for one in weights]\n")
    seen = (Seen(100 * at + 50, 50, 2, "", "penalty", file=str(script)) for at in range(STEPS))
    run = run_of(step_table(STEPS, {"forward": 50, "other": 50}), *seen)
    assert with_operators(run).cost_ns == 25 * MS
    run = logging(50, (1, 15, "<module>", "torch/_tensor_str.py _str"))
    assert source_of(with_operators(run)) == "/p/train.py:15"


def test_a_closure_of_the_optimizer_counts() -> None:
    seen = []
    for start in range(0, 100 * STEPS, 100):
        seen.append(Seen(start, 40, 9, OPTIMIZER, "closure", JSON))
        seen.append(Seen(start + 40, 60, 20, OPTIMIZER, via="torch/optim/optimizer.py wrapper"))
    finding = finding_of(run_of(step_table(STEPS, {"optimizer": 100}), *seen), "python-bound")
    assert (finding.cost_ns, source_of(finding)) == (40 * MS, "/p/train.py:9")


@pytest.mark.parametrize(
    ("frame", "words"),
    [
        ("python3.11/subprocess.py run", "a subprocess"),
        ("requests/api.py get", "a network request"),
        ("wandb/sdk/wandb_run.py Run.log", "reporting to Weights & Biases"),
        ("torch/utils/tensorboard/writer.py add_scalar", "writing TensorBoard summaries"),
        ("matplotlib/figure.py savefig", "drawing with matplotlib"),
        ("pandas/core/frame.py to_csv", "work with pandas"),
        ("tqdm/std.py update", "a progress bar"),
        ("python3.12/logging/__init__.py Logger.info", "writing logs"),
        ("python3.12/re/__init__.py sub", "regular expressions"),
        ("numpy/linalg/_linalg.py svd", "work with NumPy"),
        ("torch/_tensor.py Tensor.__format__", "writing tensors out as text"),
        ("project/model.py forward", ""),
    ],
)
def test_what_a_line_does_is_told_by_what_it_calls(frame: str, words: str) -> None:
    assert words_of("/nowhere/train.py", 1, frame, "") == words


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("time.sleep(0.1)", "sleeping"),
        ("print(step, loss)", "printing"),
        ("file.write(text)", "writing files"),
        ("os.fsync(file.fileno())", "writing files"),
        ("values = tensor.tolist()", "statistics in Python"),
        ("loss = (a - b).sum()", ""),
        ("gc.collect()", "collecting garbage"),
        ("digest.update(data)", "hashing"),
    ],
)
def test_functions_written_in_c_are_told_by_the_text(text: str, words: str, tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text(f"import x\n{text}\n")
    assert words_of(str(script), 2, "", "") == words


@pytest.mark.parametrize(
    ("inner", "rule"),
    [
        ("numpy/lib/_npyio_impl.py:754 _savez", "checkpoint"),
        ("numpy/lib/_npyio_impl.py:2362 genfromtxt", "python-bound"),
        ("h5py/_hl/dataset.py:1101 Dataset.__setitem__", "checkpoint"),
        ("h5py/_hl/dataset.py:781 Dataset.__getitem__", "python-bound"),
        ("joblib/numpy_pickle.py:500 load", "python-bound"),
    ],
)
def test_reading_is_no_saving(inner: str, rule: str) -> None:
    seen = [
        Seen(start + at, 50, 3, via=inner.replace(":", " ", 1) if at else "", inner=inner)
        for start in range(0, 100 * STEPS, 100)
        for at in (0, 50)
    ]
    assert finding_of(run_of(step_table(STEPS, {"other": 100}), *seen), rule) is not None


def test_lines_that_save_are_known_by_their_text(tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text("pickle.dump(state, file)\nnp.savez(path, **weights)\nsave_figure(x)\n")
    assert [saves(str(script), line) for line in (1, 2, 3, 4)] == [True, True, False, False]
    assert not saves(str(tmp_path / "none.py"), 1)


AT_A_LINE = [Seen(100 * at, 50, 16) for at in range(STEPS)]


def test_operators_of_a_training_without_modules_are_no_python() -> None:
    run = run_of(step_table(STEPS, {"backward": 50, "other": 50}), *AT_A_LINE)
    window = training().repeat(
        3,
        lambda t: (
            t.step().op("aten::mm", us(45)).pause(us(5)).phase("backward").pause(us(50)).end()
        ),
    )
    diagnosed = diagnosis(Facts(run, window.analysis())).findings
    assert [one.cost_ns for one in diagnosed if one.rule == "python-bound"] == [5 * MS]
    parts = {part.name: part.ns for part in judged_step(Facts(run, window.analysis())).parts}
    assert (parts["operators"], parts["other"]) == (45 * MS, 5 * MS)


def test_without_a_window_nothing_tells_the_operators_of_such_a_training() -> None:
    steps = step_table(STEPS, {"backward": 50, "other": 50})
    assert diagnosed(run_of(steps, *AT_A_LINE)).top is None
    writes = (Seen(100 * at, 50, 16, "", "report", JSON) for at in range(STEPS))
    assert finding_of(run_of(steps, *writes), "python-bound").cost_ns == 50 * MS


def gap(start: int, length: int, cause: GapCause = GapCause.PYTHON) -> Gap:
    return Gap(0, start * MS, (start + length) * MS, NONE, NONE, cause, NONE, NONE)


@dataclass(frozen=True)
class _Trace:
    """Events all the time from 0 to ``end``."""

    wall_origin: int | None
    end: int = 10_000 * MS

    @property
    def start(self) -> Int64:
        return np.zeros(1, dtype=np.int64)

    def ends_of(self, rows: slice) -> Int64:
        return np.full(1, self.end, dtype=np.int64)[rows]


@dataclass(frozen=True)
class _Analysis:
    """What is read of an analysis here."""

    trace: _Trace
    gaps: tuple[Gap, ...]
    worked_out: dict[object, object] = field(default_factory=dict)


def analysis_of(*gaps: Gap, origin: int | None = ORIGIN, end: int = 10_000 * MS) -> TraceAnalysis:
    found: Any = _Analysis(_Trace(origin, end), gaps)
    return found


lines = st.lists(st.tuples(st.integers(1, 400), st.integers(1, 4)), min_size=1, max_size=60)


@pytest.mark.slow
@given(lines)
def test_shares_are_of_the_time_inside_steady_steps(found: list[tuple[int, int]]) -> None:
    rows, at = [], 0
    for held, line in found:
        rows.append((at, held, "train.py", line))
        at += held
    run = run_with(stack_table(*rows))
    steps = run.ranks[0].steps
    mask = steady(steps)
    inside = [False] * 10_000
    for start, chosen in zip(steps["start"].tolist(), mask.tolist(), strict=True):
        for each in range(start // MS, start // MS + 100):
            inside[each] = chosen
    expected: dict[int, int] = {}
    for start, held, _, line in rows:
        seen = sum(inside[start : start + held])
        if seen:
            expected[line] = expected.get(line, 0) + seen * MS

    thread = main_thread(Facts(run))
    if sum(expected.values()) * RATE // 1_000_000_000 < FEWEST_SAMPLES:
        assert thread is None
        return
    assert thread.covered == sum(expected.values())
    assert {line.line: line.held for line in thread.lines} == expected
    assert [line.held for line in thread.lines] == sorted(expected.values(), reverse=True)
    assert sum(thread.share(line) for line in thread.lines) == pytest.approx(1.0)


def test_only_the_longest_lines_are_kept_and_their_share_is_of_everything() -> None:
    rows = [(at * 400, 400, "train.py", at) for at in range(20)]
    thread = main_thread(Facts(run_with(stack_table(*rows))))
    assert len(thread.lines) == MOST_LINES
    assert thread.covered > sum(line.held for line in thread.lines)


def test_a_gap_is_named_only_by_samples_inside_it_and_by_long_stretches_around_it() -> None:
    stacks = at_wall(
        (0, 90, "train.py", 1),  # covers the first gap, but is as long as one mean interval only
        (90, 10, "train.py", 2),
        (100, 400, "train.py", 3),  # four mean intervals: holds the second gap
        (500, 30, "train.py", 4),
        (530, 500, "train.py", 5),  # begins inside the third
    )
    none, held, begun = (
        line_of_gap((stacks,), analysis_of(), one)
        for one in (gap(20, 50), gap(200, 100), gap(510, 40))
    )
    assert none is None
    assert begun is not None
    assert [(line.line, line.held // MS) for line in held.lines] == [(3, 100)]
    assert [(line.line, line.held // MS) for line in begun.lines] == [(5, 20)]
    assert held.samples == begun.samples == 1


def test_a_line_before_and_after_a_short_trace_names_none_of_its_gaps() -> None:
    """The training waits for the profiler at one line, before and after the only step."""
    stacks = at_wall((-300, 800, "train.py", 1))
    assert line_of_gap((stacks,), analysis_of(end=60 * MS), gap(20, 5)) is None
    assert line_of_gap((stacks,), analysis_of(end=299 * MS), gap(20, 5)) is None
    found = line_of_gap((stacks,), analysis_of(end=300 * MS), gap(20, 5))
    assert (found.lines[0].line, found.samples) == (1, 1)


def test_gaps_are_told_by_cause_where_enough_samples_saw_them() -> None:
    stacks = at_wall(*((at * 100 + 10, 90, "train.py", 40 + at % 2) for at in range(10)))
    python = [gap(at * 100, 50) for at in range(9)]
    facts = Facts(None, analysis_of(gap(900, 50, GapCause.LAUNCH), *python))
    facts.worked_out[stack_samples] = (stacks,)
    (told,) = gap_lines(facts)
    assert told.cause is GapCause.PYTHON
    assert told.idle == 450 * MS
    assert told.thread.samples == 9
    assert told.thread.covered == 9 * 40 * MS
    assert [(line.line, line.held // MS) for line in told.thread.lines] == [(40, 200), (41, 160)]


@pytest.mark.parametrize("origin", [None, ORIGIN + 10_000 * MS])
def test_a_trace_on_another_clock_is_not_named(origin: int | None) -> None:
    stacks = at_wall((0, 900, "train.py", 1))
    assert line_of_gap((stacks,), analysis_of(origin=origin), gap(10, 50)) is None


def test_a_run_without_samples_says_nothing_and_an_asked_for_one_says_why() -> None:
    run = run_with(stack_table(), **{NO_STACKS: "py-spy is not installed"})
    assert main_thread(Facts(run)) is None
    assert "py-spy is not installed" in notes(Facts(run))
    text = render(make_report(Subject(run.root, run)))
    assert "py-spy is not installed" in text
    assert "main thread" not in text


@pytest.mark.slow
def test_the_report_lists_lines_with_their_share() -> None:
    run = run_with(stack_table((0, 8_000, "/home/a/train.py", 8), (8_000, 2_000, "", -1)))
    report = make_report(Subject(run.root, run))
    text = render(report)
    assert "Where the main thread is, over the steady steps (about 100 samples)" in text
    assert "80.0 %  /home/a/train.py:8 in main" in text
    assert "20.0 %  no line of yours (torch/x.py:-1 forward) in main" in text
    found = described("report", as_json.as_object(report))["main_thread"]
    assert found["samples"] == 100
    assert found["lines"][0]["share"] == pytest.approx(0.8)
    assert found["lines"][0]["file"] == "/home/a/train.py"


def test_names_cannot_drive_the_terminal() -> None:
    run = run_with(stack_table((0, 10_000, "/home/\x1b[2J\u202eevil.py", 8)))
    text = render(make_report(Subject(run.root, run)))
    assert "\x1b" not in text
    assert "\u202e" not in text
    assert "evil.py:8" in text


@pytest.mark.parametrize(
    ("lines", "tells"),
    [((7, 7, 7), True), ((7, 7), False), ((7, 7, 7, 9), False), ((7, 7, 7, 9, 9), True)],
)
def test_three_samples_that_agree_name_a_line_as_five_do(
    lines: tuple[int, ...], tells: bool
) -> None:
    stacks = stack_table(*((at * 100, 100, "/p/train.py", line) for at, line in enumerate(lines)))
    assert lines_by_time(stacks, stacks["held"]).suffices is tells
