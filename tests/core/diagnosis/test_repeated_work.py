"""Work that is repeated: what it takes, and what a person reads about it."""

from pathlib import Path
from textwrap import dedent
from typing import Any

import pytest

from perftui.diagnosis.model import Diagnosis
from perftui.run.columns import FETCH, FORWARD, WORKER_STACK_COLUMNS
from tests.core.diagnosis.runs import (
    MS,
    Seen,
    joined,
    make_run,
    pauses,
    run_of,
    step_table,
    with_tables,
)
from tests.core.diagnosis.stories import diagnosed, found
from tests.step_rows import table_of

STEPS = 60
TEXT = """\
    def weigh(games):
        return np.array([game.weight for game in games])
    def batch():
        rows = []
        for _ in range(10):
            rows.append(rng.choice(9, p=weigh(games)))
        return rows
    for step in range(60):
        loss = model(batch())
        loss.backward()
        optimizer.step()
    """


def trained(
    folder: Path, share: float, text: str = TEXT, stage: str = "", rise: float = 0, **noted: Any
) -> Diagnosis:
    """Line 2 of the training takes that share of a step of 100 ms, ``rise`` ms more each time."""
    (folder / "train.py").write_text(dedent(text))
    file, start = str(folder / "train.py"), 0.0
    steps, seen = [], []
    for more in (rise * at for at in range(STEPS)):
        own, rest = 100 * share + more, 50 - 100 * share
        first = "input_wait" if stage == FETCH else "other"
        steps.append(step_table(1, {first: own + rest, "forward": 50}))
        seen.append(Seen(start, own, 2, stage, "weigh", file=file))
        seen.append(Seen(start + own, rest, 6, stage, "batch", file=file))
        start += own + rest + 50
        seen.append(Seen(start - 50, 50, 9, FORWARD, via="torch/nn/modules/module.py", file=file))
    return diagnosed(run_of(joined(*steps), *seen, cwd=str(folder), **noted))


def test_the_loop_and_what_it_repeats_are_named(tmp_path: Path) -> None:
    it = found(trained(tmp_path, 0.3), "repeated-work")
    assert it is not None
    assert it.sentence == (
        "weigh(games) at train.py:6 gives the same result in each turn of the loop at train.py:5, "
        "and is computed each time: this takes 30 ms of each 100 ms step (30 %)."
    )
    assert it.advice == "compute weigh(games) once, before the loop at train.py:8, and pass it on"
    assert it.cost_ns == pytest.approx(30 * MS, rel=0.02)


def test_all_but_the_first_of_ten_turns_is_lost(tmp_path: Path) -> None:
    once = TEXT.replace("return rows", "games[0] = rows; return rows")
    it = found(trained(tmp_path, 0.3, once), "repeated-work")
    assert it is not None
    assert it.advice == "compute weigh(games) once, before the loop at train.py:5"
    assert it.cost_ns == pytest.approx(27 * MS, rel=0.02)


def test_little_or_changing_work_is_not_reported(tmp_path: Path) -> None:
    assert found(trained(tmp_path, 0.04), "repeated-work") is None
    changing = TEXT.replace("rows.append", "games[0].weight = 0; rows.append")
    assert found(trained(tmp_path, 0.3, changing), "repeated-work") is None


UNREAD = """\
    def spread(x):
        return x.abs().exp().sum()
    for step in range(60):
        kept = spread(x)
        loss = model(x)
        wide = spread(x + step)
        loss.backward()
        optimizer.step(kept)
    """


def test_a_result_that_nothing_reads_has_its_part_of_what_its_function_takes(
    tmp_path: Path,
) -> None:
    it = found(trained(tmp_path, 0.4, UNREAD), "unread-result")
    assert it is not None
    assert it.sentence == (
        "wide = spread(x + step) at train.py:6 is never read afterwards: it is one of 2 uses of "
        "what takes 50 ms of each 100 ms step (50 %)."
    )
    assert it.advice == "leave wide = spread(x + step) out"
    assert it.cost_ns == pytest.approx(25 * MS, rel=0.02)
    read = UNREAD.replace("(kept", "(kept, wide")
    assert found(trained(tmp_path, 0.4, read), "unread-result") is None


def test_what_makes_a_line_longer_comes_before_that_nobody_reads_it(tmp_path: Path) -> None:
    collections = pauses(*((100 * at + 5, 40, 2) for at in range(STEPS)))
    judged = trained(tmp_path, 0.4, UNREAD, events=collections)
    costs = {one.rule: one.cost_ns / MS for one in judged.findings if one.cost_ns}
    # Of 50 ms outside of the model.
    assert [*costs.items()] == [("gc-pauses", 40), ("unread-result", pytest.approx(10, rel=0.02))]
    grown = trained(tmp_path, 0.2, UNREAD, rise=2)
    assert [one.rule for one in grown.findings][:2] == ["growing-steps", "unread-result"]


def test_work_of_loader_workers_counts_as_far_as_it_is_waited_for(tmp_path: Path) -> None:
    text = """\
        class Windows(Dataset):
            def __init__(self, series):
                self.series = series
            def __getitem__(self, i):
                return np.sin(self.series)[i : i + 96]
        """
    (tmp_path / "train.py").write_text(dedent(text))
    file, every = str(tmp_path / "train.py"), 10 * MS
    lines = [5 if at % 4 else 4 for at in range(900)]
    rows = [
        [at * every, every, 1, file, line, "Windows.__getitem__", "", every, FETCH, "", 7, 1]
        for at, line in enumerate(lines)
    ]
    loader = {"id": 1, "num_workers": 2, "role": "train", "file": file, "line": 6}
    run = make_run(
        steps=step_table(100, {"forward": 20, "input_wait": 80}),
        loaders=(loader,),
        cwd=str(tmp_path),
        events=(("process", {"argv0": "train.py"}),),
    )
    judged = diagnosed(with_tables(run, worker_stacks=table_of(WORKER_STACK_COLUMNS, rows)))
    it = found(judged, "repeated-work")
    assert it is judged.top
    assert it is not None
    assert it.sentence.startswith(
        "np.sin(self.series) at train.py:5 gives the same result for each sample"
    )
    assert it.cost_ns == pytest.approx(60 * MS, rel=0.02)
