"""One picture of each screen at each size; behaviour is tested elsewhere.

After a change that is meant: ``pytest tests/tui/test_pictures.py --snapshot-update``, and look."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from perftui.experiments.job import Job
from perftui.experiments.trial_runs import NextRun, Purpose
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status
from perftui.trace.recordings import choose_rank
from perftui_tui.actions.experiment import PairedTrials, Tuning
from perftui_tui.app import PerftuiApp
from perftui_tui.reading.experiment_state import TrialPlan, TrialState, TuningState
from perftui_tui.tables.virtual import VirtualTable
from tests.tui.driving import press, text_of, until, until_shown
from tests.tui.fake_trial import UNCLEAR, progress_of
from tests.tui.recorded import ENDED, NOW, START, gpu_window, write_full_machine, write_run
from tests.tui.test_experiment_rows import TRYING, TUNED
from tests.tui.test_memory_screen import three_lines
from tests.tui.test_ranks_screen import write_run_of_ranks
from tests.tui.test_timeline_ranks import write_rank
from tests.tui.traces import write_op_trace, write_trace

pytestmark = pytest.mark.snapshot

SIZES = [(80, 24), (120, 40), (200, 50)]
USUAL = (120, 40)
EACH = [pytest.param(size, marks=[] if size == USUAL else [pytest.mark.slow]) for size in SIZES]
FAILED_OUTPUT = (
    b"Traceback (most recent call last):\r\n"
    b'  File "train.py", line 3, in <module>\r\n'
    b"    import torchvision\r\n"
    b"ModuleNotFoundError: No module named 'torchvision'\r\n"
)
BAR = b"\repoch 1:  50%|#####     | 1240/2480 [07:12<07:12,  2.87it/s, loss=2.41]"

Compare = Callable[..., bool]


def settled(screen: str, *keys: str) -> Callable[[Pilot[None]], Any]:
    """Wait for data, go to ``screen``, press ``keys``, and let the layout come to rest."""

    async def run(pilot: Pilot[None]) -> None:
        app = pilot.app
        await until(pilot, lambda: app.snapshot and app.snapshot.is_judged, "a judged snapshot")
        if app.target.is_dir():
            await until(pilot, lambda: app.output.lines, "the output")
        app.action_show(screen)
        await until(pilot, lambda: app.current_mode == screen, screen)
        await pilot.press(*keys)
        if screen == "runs":
            # A query keeps what it has found.
            await until(pilot, lambda: any(t.data for t in app.screen.query(VirtualTable)), "runs")
            await until(pilot, lambda: "reading" not in text_of(app), "what each run came to")
        await pilot.pause(0.3)
        await pilot.pause()

    return run


def picture(compare: Compare, root: Path, screen: str, size: tuple[int, int], *keys: str) -> bool:
    app = PerftuiApp(root, clock=lambda: NOW)
    return compare(app, terminal_size=size, run_before=settled(screen, *keys))


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("screen", ["overview", "diagnosis", "log"])
def test_a_slow_loader(
    snap_compare: Compare, tmp_path: Path, screen: str, size: tuple[int, int]
) -> None:
    output = b"".join(b"epoch 1 step %d loss 2.41\r\n" % n for n in range(1100, 1200)) + BAR
    assert picture(snap_compare, write_run(tmp_path, output=output), screen, size)


@pytest.mark.parametrize(
    "size", [*EACH, pytest.param((40, 8), marks=pytest.mark.slow)], ids="{0[0]}x{0[1]}".format
)
@pytest.mark.parametrize("cards", [4, 8])
def test_many_gpus(
    snap_compare: Compare, tmp_path: Path, cards: int, size: tuple[int, int]
) -> None:
    root = write_full_machine(tmp_path, cards=cards, window=gpu_window())
    assert picture(snap_compare, root, "overview", size)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_a_gpu_that_waits(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    root = write_run(tmp_path, gpu=True, workers=2)
    assert picture(snap_compare, root, "overview", size)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_before_and_after(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    first = write_run(tmp_path)
    root = write_run(
        tmp_path,
        run_id="20231114-231320-train",
        parent=first.name,
        name="num_workers 0 -> 4",
        wait_ms=3,
        workers=4,
    )
    assert picture(snap_compare, root, "compare", size)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize(
    ("screen", "keys"), [("overview", ()), ("timeline", ("g",)), ("ops", ()), ("diagnosis", ())]
)
def test_a_trace(
    snap_compare: Compare, tmp_path: Path, screen: str, keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    assert picture(snap_compare, write_trace(tmp_path, steps=24), screen, size, *keys)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_memory(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    root = write_run(tmp_path, gpu=True, workers=2, **ENDED)
    rank = RunLayout(root).rank(0)
    rank.memory.mkdir()
    (rank.memory / "peak.pickle").write_bytes(three_lines())
    assert picture(snap_compare, root, "memory", size)


def test_memory_without_a_gpu(snap_compare: Compare, tmp_path: Path) -> None:
    assert picture(snap_compare, write_run(tmp_path), "memory", (80, 24))


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_ranks(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    root = write_run_of_ranks(tmp_path, 5, 7, 65, 4, 6, 5)
    assert picture(snap_compare, root, "ranks", size)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_all_ranks_on_one_clock(
    snap_compare: Compare, tmp_path: Path, size: tuple[int, int]
) -> None:
    for rank in range(3):
        write_rank(tmp_path, rank, late_us=2_000 * rank)
    chosen = choose_rank(tmp_path)
    app = PerftuiApp(chosen.path, clock=lambda: NOW)
    app.ranks = chosen.ranks

    async def together(pilot: Pilot[None]) -> None:
        await settled("timeline")(pilot)
        await until_shown(pilot, "ProfilerStep#3")
        await press(pilot, "r", until="3 ranks on one clock")
        await until(pilot, lambda: "reading the traces" not in text_of(app), "the notice's end")

    assert snap_compare(app, terminal_size=size, run_before=together)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_runs(
    snap_compare: Compare, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, size: tuple[int, int]
) -> None:
    # Elsewhere in the terminal stands where the runs are: that must not change with each test.
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("perftui_tui.screens.runs.short_path", lambda path: path.name)
    runs = Path("runs").absolute()
    root = write_run(runs)
    before = {"started_ns": START - 10**12, "wait_ms": 2, "workers": 4}
    write_run(runs, run_id="20231113-101010-other", name="num_workers 0 -> 4", **before, **ENDED)
    (runs / "20231112-000000-bad").mkdir()
    (runs / "20231112-000000-bad" / "run.json").write_text("{")
    assert picture(snap_compare, root, "runs", size)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_a_played_run(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    root = write_run(tmp_path, gpu=True, workers=2, **ENDED)
    keys = ("P", "end", "left", "shift+left", "shift+left")
    assert picture(snap_compare, root, "overview", size, *keys)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
def test_a_chart_to_study(snap_compare: Compare, tmp_path: Path, size: tuple[int, int]) -> None:
    root = write_run(tmp_path, gpu=True, workers=2)
    keys = ("C", "n", "n", "n", "left", "plus", "plus")
    assert picture(snap_compare, root, "overview", size, *keys)


@pytest.mark.parametrize("size", EACH, ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize(
    ("keys", "words"),
    [(("v", "E"), "▾ aten::linear"), (("k", "enter"), "grid and block")],
    ids=["tree", "page"],
)
def test_operators_opened(
    snap_compare: Compare, tmp_path: Path, keys: tuple[str, ...], words: str, size: tuple[int, int]
) -> None:
    async def opened(pilot: Pilot[None]) -> None:
        await settled("ops")(pilot)
        for key in keys:
            await pilot.press(key)
            await pilot.pause(0.3)
        await until_shown(pilot, words)

    app = PerftuiApp(write_op_trace(tmp_path), clock=lambda: NOW)
    assert snap_compare(app, terminal_size=size, run_before=opened)


def test_nothing_yet(snap_compare: Compare, tmp_path: Path) -> None:
    root = write_run(tmp_path, steps=0, torch_version=None, output=b"loading data\r\n")
    assert picture(snap_compare, root, "overview", (80, 24))


def test_a_script_that_failed_at_once(snap_compare: Compare, tmp_path: Path) -> None:
    root = write_run(
        tmp_path,
        steps=0,
        torch_version=None,
        output=FAILED_OUTPUT,
        status=Status.EXITED,
        exit_code=1,
        ended_ns=START + 2 * 10**9,
    )
    assert picture(snap_compare, root, "overview", (80, 24))


@pytest.mark.parametrize("key", ["question_mark", "a"])
def test_dialogs(snap_compare: Compare, tmp_path: Path, key: str) -> None:
    assert picture(snap_compare, write_run(tmp_path), "overview", (120, 40), key)


@pytest.mark.parametrize("size", EACH[:2], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("keys", [("X",), ()], ids=["open", "below"])
def test_a_trial_by_pairs(
    snap_compare: Compare, tmp_path: Path, keys: tuple[str, ...], size: tuple[int, int]
) -> None:
    """While it runs: in full, and as the line under a screen."""
    root = write_run(tmp_path)
    app = PerftuiApp(root, clock=lambda: NOW)

    async def under_way(pilot: Pilot[None]) -> None:
        await settled("diagnosis")(pilot)
        option = next(iter(app.snapshot.options.values()))[0]
        made = ((NextRun(Purpose.WARM_UP), 12.0), *((NextRun(Purpose.PAIR), 19.0),) * 12)
        now = {"run": NextRun(Purpose.PAIR, 7), "run_began_ns": 300 * 10**9, "made": made}
        job = Job("", option, 80, 0, progress=progress_of(*UNCLEAR), **now)
        trials = app.trials
        trials.pairs = PairedTrials(app, app.source_fixes, trials.proofs, clock=lambda: 310.0)
        trials.pairs.state = TrialState(job, TrialPlan(80, 30.0), root=root, began=60.0)
        app.refresh_experiment()
        await pilot.press(*keys)
        await pilot.pause(0.3)

    assert snap_compare(app, terminal_size=size, run_before=under_way)


@pytest.mark.parametrize("size", EACH[:2], ids="{0[0]}x{0[1]}".format)
@pytest.mark.parametrize("state", [TRYING, TUNED], ids=["tried", "over"])
def test_a_tuning(
    snap_compare: Compare, tmp_path: Path, state: TuningState, size: tuple[int, int]
) -> None:
    """While a fix is tried and at its end, with the line below."""
    app = PerftuiApp(write_run(tmp_path), clock=lambda: NOW)

    async def under_way(pilot: Pilot[None]) -> None:
        await settled("diagnosis")(pilot)
        trials = app.trials
        trials.tuning = Tuning(app, app.source_fixes, trials.proofs, clock=lambda: 210.0)
        trials.tuning.state = state
        app.refresh_experiment()
        await pilot.press("X")
        await pilot.pause(0.3)

    assert snap_compare(app, terminal_size=size, run_before=under_way)


@pytest.mark.parametrize("theme", ["perftui-light", "perftui-contrast", "perftui-ansi"])
def test_themes(snap_compare: Compare, tmp_path: Path, theme: str) -> None:
    app = PerftuiApp(write_run(tmp_path), clock=lambda: NOW, theme=theme)
    assert snap_compare(app, terminal_size=(120, 40), run_before=settled("overview"))
