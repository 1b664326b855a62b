"""``python-bound``: how long the script's own Python takes, at which line, and doing what."""

from __future__ import annotations

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Confidence, Finding, Severity
from perftui.facts.fact import Facts
from perftui.facts.source.lines import saves, words_of
from perftui.facts.step.judged_step import judged_step
from perftui.run.columns import FORWARD, OPTIMIZER
from perftui.run.reader import RunSnapshot
from tests.core.diagnosis.runs import MS, step_table
from tests.core.diagnosis.script_runs import Seen, judged, reason, run_of, said, source_of, told
from tests.core.diagnosis.stories import training
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
    finding = told(
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


def test_the_largest_part_does_not_say_it_again() -> None:
    diagnosis = judged(logging(50, (1, 15, "report", JSON)))
    assert [finding.rule for finding in diagnosis.findings] == ["python-bound"]


def test_a_tenth_of_the_step_is_a_warning_and_half_of_that_a_word() -> None:
    line = (1.0, 15, "report", JSON)
    assert told(logging(10, line), "python-bound").severity is Severity.WARNING
    assert told(logging(9.9, line), "python-bound").severity is Severity.INFO
    assert said(logging(4.9, line), "python-bound") is None


REDUCE = "torch/distributed/c10d_logger.py _exception_logger.<locals>.wrapper"


def test_waiting_for_other_ranks_is_none_of_the_scripts_own_python() -> None:
    run = logging(50, (0.9, 15, "average", REDUCE), (0.1, 16, "average", JSON))
    assert told(run, "python-bound").cost_ns == 5 * MS


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
    assert finding is not None
    assert (finding.rule, finding.cost_ns) == ("communication-exposed", 50 * MS)
    assert words in finding.sentence
    assert source_of(finding) == "/p/train.py:15"


def test_what_torch_is_called_for_is_not_named() -> None:
    finding = told(logging(20, (1, 15, "loss", "torch/nn/functional.py mse_loss")), "python-bound")
    assert finding.place is None


def test_a_copy_of_the_model_is_the_scripts_own() -> None:
    run = logging(20, (1, 15, "<module>", "python3.12/copy.py deepcopy"))
    assert "copying objects (copy.deepcopy), at train.py:15" in told(run, "python-bound").sentence


def test_a_logger_that_a_framework_calls_is_named_by_the_line_that_trains() -> None:
    steps = step_table(STEPS, {"forward": 60, "other": 40})
    row = Seen(60, 40, 90, via="lightning/trainer.py fit", inner="wandb/sdk/run.py:7 log")
    logged = [row._replace(start=100 * at + 60) for at in range(STEPS)]
    computed = [Seen(100 * at, 60, 90, FORWARD, via="lightning/trainer.py") for at in range(STEPS)]
    finding = told(run_of(steps, *logged, *computed), "python-bound")
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


def test_a_loop_in_a_function_of_its_own_may_call_operators(tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text("def penalty(weights):\n    return [svdvals(one) for one in weights]\n")
    seen = (Seen(100 * at + 50, 50, 2, "", "penalty", file=str(script)) for at in range(STEPS))
    run = run_of(step_table(STEPS, {"forward": 50, "other": 50}), *seen)
    assert with_operators(run).cost_ns == 25 * MS


def test_what_the_framework_does_in_python_for_the_script_has_its_line() -> None:
    run = logging(50, (1, 15, "<module>", "torch/_tensor_str.py _str"))
    assert source_of(with_operators(run)) == "/p/train.py:15"


def test_without_samples_and_window_it_is_not_judged() -> None:
    run = run_of(step_table(STEPS, {"forward": 50, "other": 50}))
    assert said(run, "python-bound") is None
    assert reason(run, "python-bound") == (
        "neither stack samples nor a profiled window show the script"
    )


def test_a_closure_of_the_optimizer_counts() -> None:
    seen = []
    for start in range(0, 100 * STEPS, 100):
        seen.append(Seen(start, 40, 9, OPTIMIZER, "closure", JSON))
        seen.append(Seen(start + 40, 60, 20, OPTIMIZER, via="torch/optim/optimizer.py wrapper"))
    finding = told(run_of(step_table(STEPS, {"optimizer": 100}), *seen), "python-bound")
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
    assert told(run_of(step_table(STEPS, {"other": 100}), *seen), rule) is not None


def test_lines_that_save_are_known_by_their_text(tmp_path) -> None:
    script = tmp_path / "train.py"
    script.write_text("pickle.dump(state, file)\nnp.savez(path, **weights)\nsave_figure(x)\n")
    assert [saves(str(script), line) for line in (1, 2, 3, 4)] == [True, True, False, False]
    assert not saves(str(tmp_path / "none.py"), 1)


def test_operators_of_a_training_without_modules_are_no_python() -> None:
    at_line = [Seen(100 * at, 50, 16) for at in range(STEPS)]
    run = run_of(step_table(STEPS, {"backward": 50, "other": 50}), *at_line)
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
    assert (
        said(run_of(steps, *(Seen(100 * at, 50, 16) for at in range(STEPS))), "python-bound")
        is None
    )
    assert judged(run_of(steps, *(Seen(100 * at, 50, 16) for at in range(STEPS)))).top is None
    writes = (Seen(100 * at, 50, 16, "", "report", JSON) for at in range(STEPS))
    assert told(run_of(steps, *writes), "python-bound").cost_ns == 50 * MS
