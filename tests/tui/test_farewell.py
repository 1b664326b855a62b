"""`perftui attach`, and what is printed after the app."""

import os
import shlex
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from perftui.experiments.journal import Proof
from perftui.experiments.trial_verdict import Outcome
from perftui.recorder.launch import Launch, start
from perftui.run.control import STOP, request
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status, wait_until_over
from perftui.run.reader import RunReader
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from perftui_tui.commands.farewell import achieved, farewell
from perftui_tui.dialogs.choice import QuitDialog
from perftui_tui.dialogs.experiment import NOT_MEASURED
from tests.ran import Capture, Patch, ran
from tests.terminal import Terminal
from tests.tui.driving import opened
from tests.tui.recorded import START, write_run


def test_what_opens_by_itself_is_named_with_the_command(tmp_path: Path, capsys: Capture) -> None:
    layout = RunLayout(write_run(tmp_path, status="exited", exit_code=0))
    kept = [layout.rank(0).memory / "peak.pickle", layout.nsys / "steps.1.nsys-rep"]
    for path in kept:
        path.parent.mkdir(parents=True)
        path.touch()
    farewell(layout.root, is_replay=True)

    lines = capsys.readouterr().err.splitlines()
    assert lines[-2:] == [
        f"  memory  perftui {shlex.quote(str(kept[0]))}",
        f"  nsys    perftui {shlex.quote(str(kept[1]))}",
    ]


def test_a_training_that_was_stopped_for_a_trial_is_no_failure(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    stopped = {"status": "killed", "exit_code": 130, "stop_reason": "trial"}
    root = write_run(tmp_path, **stopped)
    RunLayout(root).output.write_text("Traceback\nKeyboardInterrupt\n")
    done = (("tried", "num_workers 0 -> 2: 2.10x faster (2.00 to 2.20)"),)
    assert farewell(root, is_replay=False, achieved=done) == 130
    assert capsys.readouterr().err.splitlines()[:3] == [
        "perftui: train.py was stopped for a trial (exit code 130)",
        "  tried   num_workers 0 -> 2: 2.10x faster (2.00 to 2.20)",
        f"  run     {root}",
    ]
    # A narrow terminal breaks no word.
    monkeypatch.setenv("COLUMNS", "38")
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    farewell(root, is_replay=True, achieved=done)
    broken = ["  tried   num_workers 0 -> 2: 2.10x", f"{'':10}faster (2.00 to 2.20)"]
    assert capsys.readouterr().err.splitlines()[1:3] == broken


@pytest.mark.subprocess
def test_diagnose_repeats_why_the_script_failed(
    tmp_path: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("train.py").write_text("raise SystemExit('there is no data')")
    assert main(["diagnose", "train.py"]) == 1
    assert "  | there is no data" in capsys.readouterr().err.splitlines()


def test_all_that_was_done_is_named_and_the_last_fix_is_undone_first() -> None:
    def written(file: str, title: str, gain: str, run: str) -> SimpleNamespace:
        applied, option = SimpleNamespace(path=f"/p/{file}"), SimpleNamespace(title=title)
        return SimpleNamespace(applied=applied, option=option, gain=gain, root=Path(run))

    proofs = [
        Proof("loader-workers", "num_workers 0 -> 1", Outcome.SLOWER, "1.25x slower", (), 1),
        Proof("anomaly-off", "anomaly detection off", Outcome.FASTER, "1.14x faster", (), 2),
        Proof("no-gc", "no collection", Outcome.FASTER, "4.47x faster", (), 3),
    ]
    fixes = (
        written("train.py", "anomaly detection off", "", "/runs/a"),
        written("data.py", "pin_memory on", "", "/runs/b c"),
    )
    app = SimpleNamespace(
        trials=SimpleNamespace(
            proofs=SimpleNamespace(every=proofs),
            tuning=SimpleNamespace(state=None),
            pairs=SimpleNamespace(
                is_running=True,
                state=SimpleNamespace(
                    job=SimpleNamespace(tried=SimpleNamespace(title="fused")), root=Path("/runs/a")
                ),
            ),
        ),
        source_fixes=SimpleNamespace(written=fixes, undone={"no-gc"}),
    )
    assert list(achieved(cast("PerftuiApp", app))) == [
        ("trial", "fused goes on; perftui attach /runs/a shows it, X there stops it"),
        ("tried", "num_workers 0 -> 1: 1.25x slower"),
        ("proven", "no collection: 4.47x faster, undone"),
        ("wrote", "/p/train.py: anomaly detection off, 1.14x faster, proven"),
        ("wrote", f"/p/data.py: pin_memory on, {NOT_MEASURED}"),
        ("undo", "perftui undo '/runs/b c'  # restores data.py"),
        ("undo", "perftui undo /runs/a  # restores train.py"),
    ]


AGENT = Path(__file__).parents[1] / "core" / "recorder" / "fake_agent.py"


@pytest.fixture
def attached(monkeypatch: Patch) -> list[Path]:
    """The directories that the app would have been opened on, on a machine with a terminal."""
    seen: list[Path] = []
    monkeypatch.setattr("perftui_tui.commands.show.why_headless", lambda _: None)

    def run(app: PerftuiApp) -> None:
        assert (app.attached_to, app.is_replay) == (app.target, False)
        seen.append(app.target)

    monkeypatch.setattr("perftui_tui.app.PerftuiApp.run", run)
    return seen


@pytest.fixture
def runs(tmp_path: Path, monkeypatch: Patch) -> Path:
    """An older run that lives and a newer one that is over, in a project's directory of runs."""
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".perftui" / "runs"
    write_run(runs, run_id="20231114-100000-live", started_ns=START)
    write_run(runs, run_id="20231114-110000-over", started_ns=START + 1, status="exited")
    return runs


@pytest.mark.parametrize("word", ["", ".", "live", "20231114-100000-live", ".perftui/runs"])
def test_the_run_that_lives_is_meant(runs: Path, attached: list[Path], word: str) -> None:
    assert main(["attach", *filter(None, [word])]) == 0
    assert attached == [runs / "20231114-100000-live"]


def test_where_no_run_is_the_newest_demo_that_goes_on_is_meant(
    tmp_path: Path, monkeypatch: Patch, attached: list[Path], capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("perftui_tui.commands.show.gettempdir", lambda: str(tmp_path))
    assert "no recorded run in" in ran(capsys, "attach", code=2).err
    states = ("running", "running", "exited")
    demos = [tmp_path / f"perftui-demo-{number}" for number in range(3)]
    for at, (demo, status) in enumerate(zip(demos, states, strict=True)):
        write_run(demo / ".perftui" / "runs", run_id="20231114-100000-demo", status=status)
        os.utime(demo, (at, at))
    assert main(["attach"]) == 0
    assert [root.parents[2] for root in attached] == [demos[1]]
    assert f"perftui attach {attached[0]}" in capsys.readouterr().err
    assert QuitDialog.leaving(attached[0], None).label.count(f"perftui attach {demos[1]} shows")
    monkeypatch.chdir(demos[1])
    assert QuitDialog.leaving(attached[0], None).label.count("perftui attach shows")


def test_leaving_says_how_to_come_back(runs: Path, attached: list[Path], capsys: Capture) -> None:
    main(["attach"])
    printed = capsys.readouterr().err
    assert "train.py is still running" in printed
    assert f"perftui attach {runs / '20231114-100000-live'}" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["over"], "20231114-110000-over is over (exited 3); perftui replay"),
        (["."], "no training is running in"),
        (["."], "the newest, 20231114-110000-over is over (exited 3); perftui replay"),
        (["nothing"], "no run 'nothing'"),
        (["--runs", "nowhere"], "no recorded run in"),
        (["a", "b"], "unexpected 'b'"),
    ],
)
def test_what_cannot_be_attached_to_is_said_with_what_to_do(
    tmp_path: Path,
    monkeypatch: Patch,
    attached: list[Path],
    capsys: Capture,
    arguments: list[str],
    words: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    runs = tmp_path / ".perftui" / "runs"
    write_run(runs, run_id="20231114-110000-over", status="exited", exit_code=3)
    assert words in ran(capsys, "attach", *arguments, code=2).err
    assert attached == []


def test_without_a_terminal_the_report_is_named(runs: Path, capsys: Capture) -> None:
    said = ran(capsys, "attach", "--headless", code=2).err
    assert f"perftui report {runs / '20231114-100000-live'}" in said


async def test_leaving_asks_nothing_and_the_size_of_the_window_is_nobodys_business(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    run = write_run(tmp_path)
    own = PerftuiApp.__init__

    def watching(app: PerftuiApp, target: Path, **options: bool) -> None:
        own(app, target, **options)
        app.attached_to = target

    monkeypatch.setattr(PerftuiApp, "__init__", watching)
    async with opened(run) as (app, pilot):
        await pilot.resize_terminal(100, 30)
        await pilot.press("q")
        await pilot.pause()
        assert not app.is_running
    assert list(RunLayout(run).control.glob("*")) == []


@pytest.fixture
def viewers(tmp_path: Path) -> Iterator[Callable[[], Terminal]]:
    """Opens terminals in which `perftui attach` runs."""
    opened: list[Terminal] = []

    def view() -> Terminal:
        opened.append(Terminal([sys.executable, "-m", "perftui_tui", "attach"], tmp_path))
        return opened[-1]

    yield view
    for one in opened:
        one.close()


@pytest.mark.slow
@pytest.mark.subprocess
def test_two_watch_one_training_and_neither_ends_it(
    tmp_path: Path, viewers: Callable[[], Terminal]
) -> None:
    command = (sys.executable, str(AGENT), "100000", "0.01")
    root = start(Launch(command, tmp_path, tmp_path / ".perftui" / "runs"))
    first, second = viewers(), viewers()
    for viewer in (first, second):
        viewer.wait_for("live")
        viewer.wait_for("Step")
    first.press("q")
    assert first.wait() == 0
    assert b"perftui attach" in first.written
    os.killpg(second.process.pid, signal.SIGKILL)
    second.wait()
    reader = RunReader(root)
    before = len(reader.poll().ranks[0].steps)
    until = time.monotonic() + 30
    while len(reader.poll().ranks[0].steps) < before + 50:
        assert time.monotonic() < until, "the training stopped"
        time.sleep(0.05)
    request(RunLayout(root), STOP)
    assert wait_until_over(root, 30).status is Status.KILLED
