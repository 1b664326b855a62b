"""`perftui doctor` and `probe`, the interpreter, and terminals."""

import io
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from perftui.doctor.row import Row, State, fails, ok
from perftui.probe.ceilings import Ceiling, Ceilings, ceilings, rate_of
from perftui_tui.cli import main
from perftui_tui.commands import machine as rows
from perftui_tui.commands import run as choice
from perftui_tui.commands.line import parse
from perftui_tui.commands.output import has_sixteen_colours
from perftui_tui.commands.run import interpreter, training_interpreter
from tests.described import described
from tests.ran import Capture, Patch, ran
from tests.terminal import Terminal

TOPICS = {
    *("python", "torch", "agent", "sitecustomize"),
    *("run directory", "file system", "free disk", "ptrace", "py-spy"),
    *("NVIDIA driver", "NVML", "CUPTI", "GPU counters", "other profilers"),
    *("container", "WSL", "clock", "cores", "memory", "shared memory", "open files"),
    *("nsys", "ncu", "terminal"),
}


@pytest.mark.subprocess
def test_the_doctor_sees_this_machine(tmp_path: Path, monkeypatch: Patch, capsys: Capture) -> None:
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
def test_the_exit_code_of_doctor(row: Row, code: int, monkeypatch: Patch, capsys: Capture) -> None:
    monkeypatch.setattr("perftui_tui.commands.machine.examine", lambda *_: (row,))
    assert main(["doctor"]) == code
    assert capsys.readouterr().out.startswith(row.state.value)


@pytest.mark.subprocess
def test_an_interpreter_that_cannot_run_fails_and_the_rest_is_still_looked_at(
    tmp_path: Path, capsys: Capture
) -> None:
    broken = tmp_path / "python"
    broken.write_text("#!/bin/sh\nexit 3\n")
    broken.chmod(0o755)
    out = ran(capsys, "doctor", "--python", str(broken), code=1).out
    assert out.startswith("fails    python ")
    assert "unknown  torch            the interpreter does not run\n" in out
    assert "free disk" in out


@pytest.mark.parametrize("command", ["doctor", "probe"])
def test_words_and_interpreters_that_are_none(command: str, capsys: Capture) -> None:
    assert main([command, "train.py"]) == 2
    assert f"unexpected 'train.py'; usage: perftui {command}" in capsys.readouterr().err
    assert main([command, "--python", "no-such-python"]) == 2
    assert "there is no such interpreter" in capsys.readouterr().err


FOUND = Ceilings("host", 5, (rate_of(Ceiling.CPU_MEMORY, "B/s", [[2e10]], "copies"),), torch="2.9")


def test_what_is_probed_is_kept_and_printed(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
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
    assert described("probe", ran(capsys, "probe", "--json").out)["rates"][0]["value"] == 2e10


@pytest.mark.subprocess
def test_a_torch_that_cannot_be_used_ends_the_probe(
    tmp_path: Path, monkeypatch: Patch, capsys: Capture
) -> None:
    monkeypatch.setattr("perftui.probe.probe.SECONDS", 0.1)
    (tmp_path / "data").write_bytes(os.urandom(1 << 20))
    monkeypatch.setattr("perftui.probe.ceilings.TEMPORARY", 1 << 20)
    broken = tmp_path / "python"
    broken.write_text(
        "#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n"
    )
    broken.chmod(0o755)
    printed = ran(capsys, "probe", "--path", str(tmp_path), "--python", str(broken), code=1)
    assert printed.out == ""
    assert printed.err.endswith("perftui: ModuleNotFoundError: No module named 'torch'\n")
    assert main(["probe", "--path", "/nowhere"]) == 2


class Shown(io.StringIO):
    """A terminal of that encoding."""

    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


def states(
    environment: Mapping[str, str], monkeypatch: Patch, *flags: str
) -> dict[str, tuple[str, str]]:
    monkeypatch.setattr(sys, "stdout", Shown())
    monkeypatch.setenv("TERM", environment.get("TERM", "dumb"))
    monkeypatch.setattr(rows.shutil, "get_terminal_size", lambda *_: os.terminal_size((120, 40)))
    found = rows.terminal_rows(parse(["doctor", *flags]), environment)
    return {row.topic: (row.state.value, row.found) for row in found}


def test_the_rows_of_good_and_of_poor_terminals(monkeypatch: Patch) -> None:
    good = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "SSH_TTY": "/dev/pts/1"}
    assert states(good, monkeypatch) == {
        "terminal": ("ok", "xterm-256color, over SSH"),
        "colours": ("ok", "24 bit"),
        "characters": ("ok", "utf-8"),
        "size": ("ok", "120 x 40"),
    }
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


LINE = parse(["train.py"])


def environment(root: Path, packages: str | None = "lib/python3.12/site-packages") -> Path:
    """An environment below ``root``, with torch below ``packages``; its Python."""
    python = root / "bin" / "python3"
    python.parent.mkdir(parents=True)
    python.touch(mode=0o755)
    (root / "bin" / "python").symlink_to(python)
    if packages is not None:
        (root / packages / "torch").mkdir(parents=True)
        (root / packages / "torch" / "__init__.py").touch()
    return python


@pytest.fixture
def no_other(monkeypatch: Patch, tmp_path: Path) -> None:
    """No environment is active, no Python on PATH, and perftui's own has no torch."""
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "nothing"))
    monkeypatch.setattr(choice, "find_spec", lambda _: None)


@pytest.mark.parametrize("variable", ["VIRTUAL_ENV", "CONDA_PREFIX"])
def test_an_active_environment_is_first(variable: str, monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    environment(tmp_path / "active")
    monkeypatch.setenv(variable, str(tmp_path / "active"))
    assert interpreter(LINE) == str(tmp_path / "active/bin/python")


@pytest.mark.parametrize(
    "packages",
    [
        "lib/python3.12/site-packages",
        "lib/python3/dist-packages",
        "local/lib/python3.12/dist-packages",
    ],
)
@pytest.mark.usefixtures("no_other")
def test_of_an_image_the_python_that_has_torch(
    packages: str, monkeypatch: Patch, tmp_path: Path, capsys: Capture
) -> None:
    environment(tmp_path / "active", packages=None)
    monkeypatch.setenv("VIRTUAL_ENV", str(tmp_path / "active"))
    python = environment(tmp_path / "usr", packages)
    monkeypatch.setenv("PATH", str(python.parent))
    assert training_interpreter(LINE) == str(python)
    assert capsys.readouterr().err == ""


def test_our_own_comes_before_others_if_it_has_torch(monkeypatch: Patch, tmp_path: Path) -> None:
    monkeypatch.delenv("VIRTUAL_ENV", raising=False)
    monkeypatch.delenv("CONDA_PREFIX", raising=False)
    monkeypatch.setattr(choice, "find_spec", lambda name: name)
    monkeypatch.setenv("PATH", str(environment(tmp_path / "usr").parent))
    assert interpreter(LINE) == sys.executable


@pytest.mark.usefixtures("no_other")
def test_where_none_has_torch_our_own_runs_it_and_that_is_said(capsys: Capture) -> None:
    assert training_interpreter(LINE) == sys.executable
    assert capsys.readouterr().err == (
        f"perftui: no Python with PyTorch was found, so running with {sys.executable}; "
        "--python PATH names another\n"
    )


@pytest.mark.usefixtures("no_other")
def test_nothing_is_said_of_the_interpreter_that_was_named(tmp_path: Path, capsys: Capture) -> None:
    named = environment(tmp_path / "named", packages=None)
    line = parse(["--python", str(named), "train.py"])
    assert training_interpreter(line) == str(named)
    assert capsys.readouterr().err == ""


SCRIPT = """\
import os, time
print("no colour:", os.environ.get("NO_COLOR"), flush=True)
time.sleep(600)
"""
COLOUR = re.compile(rb"\x1b\[[\d;]*?\b(?:3[0-7]|4[0-7]|9[0-7]|10[0-7]|[34]8;[25];[\d;]+)(?:;\d+)*m")
RICH_COLOUR = re.compile(rb"\x1b\[(?:[\d;]*;)?[34]8;[25];")

Open = Callable[..., Terminal]


@pytest.fixture
def shown(tmp_path: Path) -> Iterator[Open]:
    (tmp_path / "job.py").write_text(SCRIPT)
    terminals: list[Terminal] = []

    def open_terminal(*environment: str) -> Terminal:
        command = ["env", *environment, sys.executable, "-m", "perftui_tui", "job.py"]
        terminals.append(Terminal(command, tmp_path))
        return terminals[-1]

    yield open_terminal
    for one in terminals:
        one.press("q")
        one.read(1)
        one.press("s")
        one.wait()
        one.close()


@pytest.mark.slow
@pytest.mark.subprocess
def test_without_colours_there_are_none_and_the_training_knows(shown: Open) -> None:
    terminal = shown("NO_COLOR=1")
    terminal.wait_for("no colour: 1")
    assert COLOUR.findall(terminal.written) == []


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_terminal_of_sixteen_colours_gets_its_own(shown: Open) -> None:
    terminal = shown("TERM=xterm", "COLORTERM=")
    terminal.wait_for("no colour: None")
    assert RICH_COLOUR.findall(terminal.written) == []
    assert COLOUR.findall(terminal.written)


@pytest.mark.slow
@pytest.mark.subprocess
def test_the_shell_is_reached_from_a_dialog_too(shown: Open) -> None:
    terminal = shown()
    terminal.wait_for("no colour: None")
    terminal.press("?")
    terminal.wait_for("Help: overview")
    terminal.press("\x1a")
    terminal.wait_for_stop()
    os.kill(terminal.process.pid, signal.SIGCONT)
    terminal.wait_for("Help: overview")
    terminal.press("\x1b")
    terminal.wait_for(lambda text: "Help: overview" not in text)


@pytest.mark.parametrize(
    ("environment", "few"),
    [
        ({"TERM": "xterm-256color"}, False),
        ({"TERM": "xterm", "COLORTERM": "truecolor"}, False),
        ({"TERM": "xterm-kitty"}, False),
        ({"TERM": "xterm"}, True),
        ({"TERM": "screen"}, True),
        ({"TERM": "linux"}, True),
        ({}, True),
    ],
)
def test_few_colours(environment: dict[str, str], few: bool) -> None:
    assert has_sixteen_colours(environment) is few
