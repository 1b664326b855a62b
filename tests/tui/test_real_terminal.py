"""The command in a real terminal: it starts, it leaves, and the training never notices."""

import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, Status, read_manifest
from tests.terminal import Terminal

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]

PATIENCE = 30.0
SCRIPT = """\
import sys, time
for second in range(int(sys.argv[1])):
    print("tick", second, flush=True)
    time.sleep(0.1)
print("finished")
sys.exit(5)
"""


BROKEN = """\
import sys
from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main

def broken(app):
    raise ZeroDivisionError("a bug of ours")

PerftuiApp.action_help = broken
sys.exit(main(sys.argv[1:]))
"""


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    (tmp_path / "job.py").write_text(SCRIPT)
    opened: list[Terminal] = []

    def open_terminal(seconds: str, *how: str) -> Terminal:
        command = [sys.executable, *(how or ("-m", "perftui_tui")), "job.py", seconds]
        opened.append(Terminal(command, tmp_path))
        return opened[-1]

    yield open_terminal
    for one in opened:
        one.close()


def manifest_of(tmp_path: Path) -> Manifest:
    (root,) = (tmp_path / ".perftui" / "runs").iterdir()
    return read_manifest(RunLayout(root).manifest)


def output_of(tmp_path: Path) -> bytes:
    (root,) = (tmp_path / ".perftui" / "runs").iterdir()
    return RunLayout(root).output.read_bytes()


def test_it_shows_the_run_and_ends_with_the_scripts_code(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("3")
    shown.wait_for("exit code 5")
    shown.press("q")
    assert shown.wait() == 5
    last = shown.written[shown.written.rindex(b"\x1b[?1049l") :].decode()
    assert "job.py ended with exit code 5" in last
    assert "| finished" in last
    assert "perftui replay" in last


def test_left_running_it_exits_0_and_the_script_goes_on(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("150")
    shown.wait_for("tick")
    shown.press("q")
    shown.wait_for("is still running")
    shown.press("l")
    assert shown.wait() == 0
    assert manifest_of(tmp_path).status is Status.RUNNING
    wait_for_end(tmp_path)
    assert output_of(tmp_path).endswith(b"finished\r\n")


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGHUP])
def test_the_script_outlives_the_app(
    tmp_path: Path, terminal: Callable[..., Terminal], number: signal.Signals
) -> None:
    shown = terminal("40")
    shown.wait_for("tick")
    os.kill(shown.process.pid, number)
    shown.wait()
    assert wait_for_end(tmp_path).exit_code == 5
    assert output_of(tmp_path).count(b"tick") == 40


def test_asked_to_end_it_leaves_the_terminal_as_it_was(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("6000")
    shown.wait_for("tick")
    os.kill(shown.process.pid, signal.SIGTERM)
    assert shown.wait() == 0
    assert b"is still running" in shown.written[shown.written.rindex(b"\x1b[?1049l") :]
    os.kill(manifest_of(tmp_path).pid, signal.SIGKILL)
    wait_for_end(tmp_path)


@pytest.mark.keys("app.suspend_process")
def test_everything_is_drawn_again_after_a_suspension(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("1")
    shown.wait_for("none so far")
    shown.wait_for("failed (exit 5)")
    shown.read(1)
    before = shown.text
    for _ in range(2):
        shown.press("\x1a")
        shown.wait_for_stop()
        shown.read(0.2)
        shown.screen.reset()
        os.kill(shown.process.pid, signal.SIGCONT)
        shown.wait_for(lambda text: text == before)


def test_stopping_gives_the_scripts_code(tmp_path: Path, terminal: Callable[..., Terminal]) -> None:
    shown = terminal("600")
    shown.wait_for("tick")
    shown.press("q")
    shown.wait_for("stop the training")
    shown.press("s")
    assert shown.wait() == 130
    assert b"KeyboardInterrupt" in output_of(tmp_path)


def test_a_failure_of_the_app_is_told_apart_and_costs_the_training_nothing(
    tmp_path: Path, terminal: Callable[..., Terminal]
) -> None:
    shown = terminal("40", "-c", BROKEN)
    shown.wait_for("tick")
    shown.press("?")
    assert shown.wait() == 70
    last = shown.written[shown.written.rindex(b"\x1b[?1049l") :].decode()
    assert "ZeroDivisionError: a bug of ours" in last
    assert "job.py is still running" in last
    assert "perftui attach" in last
    assert len(last.splitlines()) < 30
    assert wait_for_end(tmp_path).exit_code == 5


def wait_for_end(tmp_path: Path) -> Manifest:
    deadline = time.monotonic() + PATIENCE
    while not (manifest := manifest_of(tmp_path)).status.is_over:
        assert time.monotonic() < deadline
        time.sleep(0.1)
    return manifest
