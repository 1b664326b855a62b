"""While ``nsys`` exports a report both the app and the command say so."""

from __future__ import annotations

import asyncio
import os
import shlex
import threading
from pathlib import Path

import pytest

from perftui_tui.app import PerftuiApp
from perftui_tui.cli import main
from tests.core.trace import nsys_exports as nsys
from tests.tui.driving import until, until_shown
from tests.tui.recorded import NOW

WRITE = 'head -c 3145728 /dev/zero > "$out"\n'


@pytest.fixture
def goes_on(tmp_path: Path) -> Path:
    """The ``nsys`` on PATH writes 3 MiB and then waits until this exists."""
    return tmp_path / "goes on"


@pytest.fixture
def report(tmp_path: Path, goes_on: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    made = nsys.write(tmp_path / "made.sqlite", nsys.small())
    program = tmp_path / "nsys"
    program.write_text(
        "#!/bin/sh\n"
        'for word in "$@"; do case "$word" in --output=*) out="${word#--output=}";; esac; done\n'
        f"{WRITE}echo $$ > {shlex.quote(str(tmp_path / 'pid'))}\n"
        f"while ! test -e {shlex.quote(str(goes_on))}; do sleep 0.05; done\n"
        f'cp {shlex.quote(str(made))} "$out"\n'
    )
    program.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    report = tmp_path / "train.nsys-rep"
    report.write_bytes(b"what nsys wrote")
    return report


@pytest.mark.slow
async def test_the_header_says_for_how_long_and_how_much(report: Path, goes_on: Path) -> None:
    app = PerftuiApp(report, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "nsys exports train.nsys-rep 0:0")
        await until_shown(pilot, "3.00 MiB")
        goes_on.touch()
        await until(pilot, lambda: app.snapshot is not None, "a snapshot")


async def test_leaving_ends_the_program(report: Path, tmp_path: Path) -> None:
    app = PerftuiApp(report, clock=lambda: NOW)
    async with app.run_test(size=(120, 40)) as pilot:
        await until_shown(pilot, "3.00 MiB")
        pid = int((tmp_path / "pid").read_text())
        await pilot.press("q")
    for _ in range(200):
        if not Path(f"/proc/{pid}").exists():
            return
        await asyncio.sleep(0.05)
    raise AssertionError("nsys goes on")


def test_the_report_says_it_on_stderr(
    report: Path, goes_on: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    # What it has written is looked at once, which on a busy machine is when it has begun.
    program = tmp_path / "nsys"
    program.write_text(program.read_text().replace(WRITE, ""))
    threading.Timer(0.5, goes_on.touch).start()
    assert main(["report", str(report)]) == 0
    printed = capsys.readouterr()
    assert printed.err == "nsys exports train.nsys-rep 0:00 0 B\n"
    assert "train.nsys-rep" in printed.out
