"""docs/commands.md shows every command, and what it shows is what they print."""

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments.isolate import Isolation, Side, experiments
from perftui.experiments.trial_runs import facts_of
from perftui.run.reader import RunSnapshot
from perftui_tui.commands.table import COMMANDS
from tests.docs.alike import HOME, unlike
from tests.docs.documents import DOCUMENTS, PLAYED, Shown, commands, sessions
from tests.docs.running import IDS, printed, write_place
from tests.tui.driving import opened, settled
from tests.tui.fake_trial import FASTER, FakeTrial, play_trial

MS = 10**6
APP = "replay"
"""The command whose output is a screen."""
SIZE = 80, 24
"""Of the screen that is shown."""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    write_place(tmp_path)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "hello.py").write_text('print("hello")\n')
    return tmp_path


def played_isolation(run: RunSnapshot, *_: object) -> Iterator[Isolation]:
    """Every part of ``run`` left out, in runs that are not made."""
    times = {Side.INPUT: (5, 5, 6), Side.TRAINING: (16, 17, 16), Side.WORKER: (18, 19, 18)}
    sides = (
        replace(one, times=tuple(each * MS for each in times.get(one.side, (21, 21, 20))))
        for one in experiments(facts_of(run.root))
    )
    yield Isolation((20 * MS, 22 * MS, 21 * MS), tuple(sides))


def words_of(shown: Shown, place: Path) -> list[str]:
    runs = place / ".perftui" / "runs"
    names = {"RUN": str(runs / IDS[0]), "RUN2": str(runs / IDS[1]), "TRACE": "rank0.pt.trace.json"}
    return [names.get(word, word) for word in shown.command.words]


def output_of(words: list[str]) -> tuple[str, int]:
    """What a command prints on both streams, and its exit code."""
    if "--headless" in words:  # its output is not Python's to redirect
        run = [sys.executable, "-m", "perftui_tui", *words]
        done = subprocess.run(run, cwd="elsewhere", capture_output=True, text=True, check=False)
        return done.stdout + done.stderr, done.returncode
    found = printed(words)
    return found.both, found.code


def differs(shown: Shown, place: Path) -> str:
    """How the output of a command differs from what is shown of it; empty where it does not."""
    output, code = output_of(words_of(shown, place))
    found = unlike(shown.output, output.replace(str(place), HOME))
    if code != (shown.code or 0):
        found += f"\nexit code {code}"
    return found and f"{shown.command}\n{found}"


@pytest.mark.slow
def test_commands_print_what_is_shown(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All in one test: they go on from one another."""
    monkeypatch.chdir(place)
    fake = FakeTrial(*FASTER)
    fake.let(len(FASTER))
    play_trial(monkeypatch, fake)
    monkeypatch.setattr("perftui_tui.commands.experiments.run_each", played_isolation)
    monkeypatch.setattr("perftui.probe.probe.SECONDS", 0.4)
    shown = [one for one in sessions(PLAYED) if one.command.words[0] != APP]
    assert len(shown) > 20
    assert [found for one in shown if (found := differs(one, place))] == []


async def test_the_app_shows_what_is_shown(place: Path) -> None:
    (shown,) = (one for one in sessions(PLAYED) if one.command.words[0] == APP)
    _, root = words_of(shown, place)
    async with opened(Path(root), SIZE, replay=True) as (_, pilot):
        assert unlike(shown.output, await settled(pilot)) == ""


def test_every_command_is_shown_with_its_output() -> None:
    named = set(COMMANDS)
    shown = {one.command.words[0] for document in DOCUMENTS for one in sessions(document)}
    blocks = {one.words[0] for document in DOCUMENTS for one in commands(document)}
    assert named - shown == {"attach", "demo", "tune", "mcp"}, "the app, and what others show"
    assert named <= blocks
