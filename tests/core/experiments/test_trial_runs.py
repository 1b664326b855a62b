"""The runs of a trial, and the files that they would overwrite."""

import os
import subprocess
import sys
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perftui import format as fmt
from perftui.experiments import trial as trials
from perftui.experiments.files_of_trials import restore, restore_all
from perftui.experiments.rerun import repeat_launch
from perftui.experiments.trial_runs import (
    Arm,
    NextRun,
    Progress,
    Purpose,
    TrialRun,
    TrialSetup,
    clock,
    costs_of,
    disturbance,
    disturbance_notes,
    run_seconds,
)
from perftui.facts.cpu.machine import GpuCard, busy_host, cards
from perftui.facts.data_loader.loader import read_worker_curve
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import PeakMemory
from perftui.fixes.workers import with_workers
from perftui.run.layout import RunLayout
from perftui.run.reader import RunReader, RunSnapshot
from tests.core.diagnosis.runs import MS, telemetry_table
from tests.facts_given import facts_with
from tests.tui.recorded import ENDED, SCRIPT, write_run

S = GB = 10**9


def runs(
    step: tuple[int, int],
    start: tuple[float | None, float | None] = (None, None),
    memory: tuple[float | None, float | None] = (None, None),
    is_gpu: bool = True,
) -> list[TrialRun]:
    return [
        TrialRun(
            arm,
            Path(),
            step[at] * MS,
            start_ns=None if start[at] is None else round(start[at] * S),
            memory=None if memory[at] is None else PeakMemory(round(memory[at] * GB), is_gpu),
        )
        for _ in range(3)
        for at, arm in enumerate(Arm)
    ]


def test_a_later_start_is_made_up_for_by_steps() -> None:
    costs = costs_of(runs((30, 20), (5.0, 43.0)))
    assert costs.break_even_steps == 3_800
    assert costs.sentences == ("starts 38 s later, made up for after 3,800 steps",)


@pytest.mark.parametrize("step", [(20, 20), (20, 30)])
def test_a_step_that_is_no_shorter_makes_up_for_nothing(step: tuple[int, int]) -> None:
    costs = costs_of(runs(step, (5.0, 43.0)))
    assert costs.break_even_steps is None
    assert costs.sentences == ("starts 38 s later",)


def test_a_start_that_is_about_the_same_is_not_reported() -> None:
    assert costs_of(runs((30, 20), (5.0, 5.9))).sentences == ()
    assert costs_of(runs((30, 20), (43.0, 5.0))).sentences == ()


@pytest.mark.parametrize(("is_gpu", "of"), [(True, "the GPU"), (False, "all processes")])
def test_memory_is_reported_where_it_differs(is_gpu: bool, of: str) -> None:
    more = costs_of(runs((30, 20), memory=(1.2, 1.5), is_gpu=is_gpu))
    assert more.sentences == (f"peak memory of {of} 1.1 GiB -> 1.4 GiB",)
    assert costs_of(runs((30, 20), memory=(1.2, 1.22), is_gpu=is_gpu)).sentences == ()


def test_what_was_not_recorded_is_not_known() -> None:
    costs = costs_of(runs((30, 20), (None, 4.0), (None, 1.0)))
    assert (costs.start_before_ns, costs.memory_before, costs.sentences) == (None, None, ())
    assert costs_of([]).sentences == ()


@pytest.fixture
def run(tmp_path: Path) -> RunSnapshot:
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    return RunReader(write_run(tmp_path, script=script, loader_line=4, **ENDED)).poll()


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> dict[str, int]:
    """Steps in ms by the name of a launch: no run is made."""
    times: dict[str, int] = {}

    def measured(setup: TrialSetup, arm: Arm, launch: object, run: NextRun) -> TrialRun:
        setup.began(run)
        name = getattr(launch, "name", None) or ""
        return TrialRun(arm, Path("run"), times.get(name, 100) * MS)

    monkeypatch.setattr(TrialSetup, "measure", measured)
    return times


def made(
    run: RunSnapshot, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[NextRun | Progress]:
    """What a trial of more workers says, in order."""
    monkeypatch.setattr(trials, "facts_of", lambda _: Facts(run))
    monkeypatch.setattr(trials, "counts_to_try", lambda _: (1, 2, 4, 8))
    option = with_workers(Facts(run), 4)
    assert option is not None
    heard: list[NextRun | Progress] = []
    setup = TrialSetup(directory, 50, threading.Event(), heard.append)
    trying = trials.trial(run, option, setup, 1)
    for progress in trying:
        heard.append(progress)
        yield from heard
        heard.clear()


def test_numbers_of_workers_come_first_then_the_warm_up_then_pairs(
    run: RunSnapshot, steps: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps.update({"num_workers 0 -> 1": 60, "num_workers 0 -> 2": 40, "num_workers 0 -> 4": 41})
    heard = list(made(run, tmp_path / "trials", monkeypatch))
    runs = [one for one in heard if isinstance(one, NextRun)]
    # The present number as well, and all of them in turns but what is plainly slower.
    tried = [one.workers for one in runs if one.purpose is Purpose.WORKERS]
    assert tried == [0, 1, 2, 4, 4, 2, 1]
    assert [one.further for one in runs[:7]] == [9, 8, 7, 6, 2, 1, 0]
    assert runs[7:] == [
        NextRun(Purpose.WARM_UP),
        NextRun(Purpose.PAIR, 1, Arm.BEFORE),
        NextRun(Purpose.PAIR, 1, Arm.AFTER),
    ]
    said = [one for one in heard if isinstance(one, Progress)]
    # Which number is tried is known before the first pair.
    titles = [one.option.title if one.option else None for one in said]
    assert titles == [None] * 7 + ["num_workers 0 -> 2"] * 2
    assert [len(one.pairs) for one in said] == [0] * 8 + [1]
    assert [point.workers for point in said[-1].workers] == [0, 1, 2, 4]
    curve = read_worker_curve(run.root)
    assert curve.best == 2


def test_of_another_launch_the_pairs_turn_around(
    run: RunSnapshot, steps: dict[str, int], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    del steps
    monkeypatch.setattr(trials, "_progress", lambda *_: replace(trials.NO_PAIRS))
    heard: list[NextRun] = []
    launch = repeat_launch(run)
    setup = TrialSetup(tmp_path, 50, threading.Event(), heard.append)
    list(trials.paired_runs(launch, launch, setup, 2))
    assert [one.arm for one in heard[1:]] == [Arm.BEFORE, Arm.AFTER, Arm.AFTER, Arm.BEFORE]
    assert [one.pair for one in heard[1:]] == [1, 1, 2, 2]


def test_a_run_takes_its_start_and_its_steps(tmp_path: Path) -> None:
    run = Facts(RunReader(write_run(tmp_path)).poll())
    few, many = run_seconds(run, 0), run_seconds(run, 100)
    assert few is not None
    assert many is not None
    # Eight seconds until the first step, which takes 0.9 s longer than those of 310 ms.
    assert few == pytest.approx(8.9, abs=0.1)
    assert many - few == pytest.approx(31.0, abs=0.2)


def test_without_steps_nothing_is_known(tmp_path: Path) -> None:
    assert run_seconds(Facts(RunReader(write_run(tmp_path, steps=0)).poll()), 100) is None


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        *((0, "10 s"), (44, "40 s"), (54, "50 s"), (55, "1 min"), (239, "4 min")),
        *((3599, "1 h"), (3600, "1 h"), (4800, "1 h 20 min")),
    ],
)
def test_a_rough_time_is_said_roughly(seconds: float, words: str) -> None:
    assert fmt.rough_time(seconds) == words


@pytest.mark.parametrize(
    ("fewest", "most", "words"),
    [
        *((100, 290, "2 to 5 min"), (20, 40, "20 to 40 s"), (40, 120, "40 s to 2 min")),
        *((120, 121, "2 min"), (600, 4800, "10 min to 1 h 20 min"), (3600, 7200, "1 to 2 h")),
    ],
)
def test_a_range_of_times_has_its_unit_once(fewest: float, most: float, words: str) -> None:
    assert fmt.rough_range(fewest, most) == words


GIB = 1 << 30


def card(prefix: str, **metrics: float) -> GpuCard:
    named = {f"{prefix}.{name}": value for name, value in metrics.items()}
    return GpuCard(prefix, telemetry_table(**named))


def sampled_facts(*sampled: GpuCard, busy: str = "") -> Facts:
    return facts_with(Facts(None), {busy_host: busy, cards: sampled})


def disturbed(*made: tuple[Arm, str, float | None]) -> list[TrialRun]:
    return [TrialRun(arm, Path(), 1, disturbed=why, clock=at) for arm, why, at in made]


@pytest.mark.parametrize(
    ("sampled", "busy", "said"),
    [
        ((), "", ""),
        ((), "other programs used 1.0 of 2 cores", "the host was busy: other programs used 1.0"),
        ((card("gpu1", throttle_reasons=0x20),), "", "heat throttled the clocks of GPU 1"),
        ((card("gpu0", throttle_reasons=0x04, memory_used=GIB // 2, process_memory=0),), "", ""),
        (
            (card("gpu0"), card("gpu2", memory_used=3.0 * GIB, process_memory=0)),
            "",
            "other processes hold 3.0 GiB of GPU 2",
        ),
    ],
)
def test_a_run_is_disturbed_by_others_and_by_heat(
    sampled: tuple[GpuCard, ...], busy: str, said: str
) -> None:
    found = disturbance(sampled_facts(*sampled, busy=busy))
    assert found.startswith(said)
    assert bool(found) is bool(said)


def test_the_clock_is_that_of_the_slowest_card() -> None:
    clocks = [card(f"gpu{at}", clock_sm=of, clock_sm_max=1.0) for at, of in enumerate((0.9, 0.7))]
    assert clock(sampled_facts(*clocks, card("gpu2"))) == 0.7
    assert clock(sampled_facts(card("gpu0"))) is None


def test_it_is_reported_for_how_many_runs() -> None:
    made = disturbed((Arm.BEFORE, "", None), (Arm.AFTER, "a", None), (Arm.AFTER, "b", None))
    assert disturbance_notes(made) == ("b (in 2 of 3 runs)",)
    assert disturbance_notes(disturbed((Arm.BEFORE, "", None))) == ()


def test_clocks_that_differ_between_the_arms_are_reported() -> None:
    apart = disturbed((Arm.BEFORE, "", 0.9), (Arm.AFTER, "", 0.6), (Arm.BEFORE, "", 0.9))
    assert disturbance_notes(apart) == (
        "the GPU's clock was 90 % of its maximum before and 60 % after the change",
    )
    assert disturbance_notes(disturbed((Arm.BEFORE, "", 0.9), (Arm.AFTER, "", 0.89))) == ()


WRITER = """
import json, os, shutil, sys
from pathlib import Path
import torch

here = Path(sys.argv[1])
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
log = open(here / "log.jsonl", "a")
(here / "out" / "deep").mkdir(parents=True)
for step in range(5):
    model(torch.ones(4, 4)).sum().backward()
    optimizer.step()
    log.write(json.dumps(step) + "\\n")
torch.save(model.state_dict(), here / "best.pt")
torch.save(model.state_dict(), f=str(here / "out" / "new.pt"))
torch.save(model.state_dict(), here / "tmp.pt")
os.replace(here / "tmp.pt", here / "last.pt")
shutil.copyfile(here / "best.pt", here / "copy.pt")
(here / "old.txt").unlink()
(here / "kept" / "notes.txt").write_text("changed")
assert torch.load(here / "best.pt").keys() == model.state_dict().keys()
print(sorted(path.name for path in here.iterdir()))
"""


def contents(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_run_of_a_trial_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    here, runs, temporary = (tmp_path / name for name in ("here", "runs", "temporary"))
    (here / "kept").mkdir(parents=True)
    temporary.mkdir()
    for name in ("best.pt", "log.jsonl", "last.pt", "old.txt", "kept/notes.txt"):
        (here / name).write_text(f"what {name} was\n")
    (here / "old.txt").chmod(0o640)
    os.utime(here / "old.txt", (1_000_000_000, 1_000_000_000))
    before = contents(here)
    script = tmp_path / "train.py"
    script.write_text(WRITER)
    program = (
        "import sys; from pathlib import Path; from dataclasses import replace\n"
        "from perftui.recorder.launch import Launch, start\n"
        "from perftui.wire.spool import AgentOptions\n"
        "from perftui.run.manifest import wait_until_over\n"
        "command = (sys.executable, sys.argv[1], sys.argv[2])\n"
        "options = AgentOptions(profile=False, spares_files=True)\n"
        "root = start(Launch(command, Path.cwd(), Path(sys.argv[3]), options=options))\n"
        "wait_until_over(root, 120)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(script), str(here), str(runs)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=True,
    )
    (root,) = (path for path in runs.iterdir() if path.is_dir())
    run = RunReader(root).poll()
    assert run.manifest.exit_code == 0, (root / "output.log").read_text()
    assert contents(here) != before
    restore(root)
    assert contents(here) == before
    assert (here / "old.txt").stat().st_mode & 0o777 == 0o640
    assert (here / "old.txt").stat().st_mtime == 1_000_000_000
    made = RunLayout(root).spared / "made"
    assert {path.name for path in made.rglob("*.pt")} == {"new.pt", "copy.pt"}
    # A second time there is nothing to give back.
    (here / "best.pt").write_text("newer")
    restore(root)
    assert (here / "best.pt").read_text() == "newer"


def test_nothing_was_written(tmp_path: Path) -> None:
    restore(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_journal_cut_off_gives_back_what_it_names(tmp_path: Path) -> None:
    spared = RunLayout(tmp_path).spared
    spared.mkdir()
    (spared / "a").write_text("as it was")
    file = tmp_path / "file"
    file.write_text("new")
    line = f'{{"path": "{file}", "copy": "a", "time": 1}}\n{{"path": "{tmp_path}/other", "co'
    (spared / "journal.jsonl").write_text(line)
    restore_all(tmp_path.parent)
    assert file.read_text() == "as it was"
