"""`perftui doctor` and `perftui probe`, from the command line to what they print."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from perftui.doctor.row import Row, State, fails, ok
from perftui.probe.ceilings import Ceiling, Ceilings, ceilings, rate_of
from perftui_tui.cli import main
from perftui_tui.commands import machine as rows
from perftui_tui.commands.line import parse
from tests.described import described

Capture = pytest.CaptureFixture[str]

TOPICS = {
    *("python", "torch", "agent", "sitecustomize"),
    *("run directory", "file system", "free disk", "ptrace", "py-spy"),
    *("NVIDIA driver", "NVML", "CUPTI", "GPU counters", "other profilers"),
    *("container", "WSL", "clock", "cores", "memory", "shared memory", "open files"),
    *("nsys", "ncu", "terminal"),
}


@pytest.mark.subprocess
def test_the_doctor_looks_at_this_machine(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.chdir(tmp_path)
    code = main(["doctor", "--json", "--python", sys.executable])
    found = described("doctor", capsys.readouterr().out)
    assert {row["topic"] for row in found["rows"]} == TOPICS
    states = [list(State).index(State(row["state"])) for row in found["rows"]]
    assert states == sorted(states)
    assert code == bool(found["fails"])
    by_topic = {row["topic"]: row for row in found["rows"]}
    assert by_topic["sitecustomize"]["state"] == "ok"
    assert by_topic["run directory"]["found"] == str(tmp_path / ".perftui" / "runs")
    assert all(row["advice"] for row in found["rows"] if row["state"] in ("fails", "warn"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("row", "code"), [(ok("torch", "2.8"), 0), (fails("torch", "", "Do"), 1)])
def test_the_exit_code_of_the_doctor(
    row: Row, code: int, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("perftui.doctor.examine.examine", lambda *_: (row,))
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.startswith(row.state.value)


@pytest.mark.subprocess
def test_an_interpreter_that_cannot_run_fails_and_the_rest_is_still_looked_at(
    tmp_path: Path, capsys: Capture
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    assert main(["doctor", "--python", str(broken)]) == 1
    out = capsys.readouterr().out
    assert out.startswith("fails    python ")
    assert "unknown  torch            the interpreter does not run\n" in out
    assert "free disk" in out


@pytest.mark.parametrize("command", ["doctor", "probe"])
def test_words_and_interpreters_that_are_none(command: str, capsys: Capture) -> None:
    assert main([command, "train.py"]) == 2
    assert "takes only options; unexpected 'train.py'" in capsys.readouterr().err
    assert main([command, "--python", "no-such-python"]) == 2
    assert "there is no such interpreter" in capsys.readouterr().err


FOUND = Ceilings("host", 5, (rate_of(Ceiling.CPU_MEMORY, "B/s", [[2e10]], "copies"),), torch="2.9")


def test_what_is_probed_is_kept_and_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    asked: list[tuple[str, Path]] = []

    def probe(python: str, path: Path, tell: object) -> Ceilings:
        asked.append((python, path))
        return FOUND

    monkeypatch.setenv("PERFTUI_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr("perftui.probe.probe.probe", probe)
    monkeypatch.setattr("perftui.probe.ceilings.socket.gethostname", lambda: "host")
    assert main(["probe", "--path", str(tmp_path), "--python", sys.executable]) == 0
    assert asked == [(sys.executable, tmp_path)]
    assert ceilings() == FOUND
    printed = capsys.readouterr()
    assert "CPU memory 20 GB/s 0 % copies; once" in " ".join(printed.out.split())
    assert f"kept in {tmp_path / 'cache' / 'ceilings'}" in printed.out
    assert "Ctrl+C stops" in printed.err
    assert main(["probe", "--json"]) == 0
    assert described("probe", capsys.readouterr().out)["rates"][0]["value"] == 2e10


@pytest.mark.subprocess
def test_a_torch_that_cannot_be_used_ends_the_probe(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Capture
) -> None:
    monkeypatch.setattr("perftui.probe.probe.SECONDS", 0.1)
    (tmp_path / "data").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr("perftui.probe.disk.TEMPORARY", 1 << 20)
    broken = tmp_path / "python"
    broken.write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n"
    )
    broken.chmod(0o755)
    assert main(["probe", "--path", str(tmp_path), "--python", str(broken)]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("perftui: ModuleNotFoundError: No module named 'torch'\n")
    assert main(["probe", "--path", "/nowhere"]) == 2


class Shown(io.StringIO):
    """A terminal of that encoding."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def states(
    environment: Mapping[str, str], monkeypatch: pytest.MonkeyPatch, *flags: str
) -> dict[str, tuple[str, str]]:
    monkeypatch.setattr(sys, "stdout", Shown())
    monkeypatch.setenv("TERM", environment.get("TERM", "dumb"))
    monkeypatch.setattr(rows.shutil, "get_terminal_size", lambda *_: os.terminal_size((120, 40)))
    found = rows.terminal_rows(parse(["doctor", *flags]), environment)
    return {row.topic: (row.state.value, row.found) for row in found}


def test_the_rows_of_a_good_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    good = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "SSH_TTY": "/dev/pts/1"}
    assert states(good, monkeypatch) == {
        "terminal": ("ok", "xterm-256color, over SSH"),
        "colours": ("ok", "24 bit"),
        "characters": ("ok", "utf-8"),
        "size": ("ok", "120 x 40"),
    }


def test_the_rows_of_poor_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = states({"TERM": "linux"}, monkeypatch)
    assert plain["colours"] == ("warn", "16, according to TERM and COLORTERM")
    assert plain["characters"] == ("warn", "charts are drawn in ASCII (utf-8)")
    assert states({"TERM": "xterm", "NO_COLOR": "1"}, monkeypatch)["colours"][0] == "ok"
    assert states({}, monkeypatch)["terminal"][0] == "warn"
    assert rows.size_row(79, 24).state is State.WARN
    assert rows.size_row(80, 24).state is State.OK


def test_what_is_no_terminal_is_not_judged(capsys: Capture) -> None:
    found = rows.terminal_rows(parse(["doctor"]), {"TERM": "dumb"})
    assert [(row.topic, row.state) for row in found] == [("terminal", State.UNKNOWN)]
