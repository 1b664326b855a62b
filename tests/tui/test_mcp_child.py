"""A command of a tool in a process of its own."""

from __future__ import annotations

import sys
from pathlib import Path

import anyio
import pytest

from perftui_tui.commands import mcp_answer

TALKS = """
import os, sys, time
print(os.getcwd(), sys.argv[1:], repr(sys.stdin.read()))
print("one", file=sys.stderr, flush=True)
time.sleep(0.5)
sys.stderr.write("two\\nhalf \\xff")
sys.exit(4)
"""
WAITS = """
import pathlib, sys, time
try:
    print("ready", file=sys.stderr, flush=True)
    time.sleep(60)
except KeyboardInterrupt:
    print("x" * 200_000, file=sys.stderr)
    time.sleep(0.2)
    pathlib.Path(sys.argv[1]).write_text("given back")
"""


def run_instead(monkeypatch: pytest.MonkeyPatch, code: str) -> None:
    monkeypatch.setattr(mcp_answer, "our_module", lambda _: [sys.executable, "-c", code])


async def test_what_it_prints_is_told_and_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, TALKS)
    monkeypatch.setattr(mcp_answer, "QUIET_SECONDS", 0.1)
    told: list[str] = []

    async def tell(line: str) -> None:
        told.append(line)

    ended = await mcp_answer.run_command(["a b", "--json"], tell, tmp_path)
    assert ended.code == 4
    assert ended.out == f"{tmp_path} ['a b', '--json'] ''\n"
    assert ended.lines == ("one", "two", "half ÿ")
    # While it is quiet the last line is told again.
    assert told.count("one") > 1
    assert told[-1] == "two"


async def test_where_nobody_waits_it_is_interrupted_and_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_instead(monkeypatch, WAITS)
    file = tmp_path / "file"
    with anyio.CancelScope() as scope:

        async def cancel(line: str) -> None:
            assert line == "ready"
            scope.cancel()

        await mcp_answer.run_command([str(file)], cancel)
    assert scope.cancelled_caught
    assert file.read_text() == "given back"
