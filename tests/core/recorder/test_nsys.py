"""Trainings below Nsight Systems, which is played by a script that behaves as badly as it can."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perftui.recorder.nsys import NsysError, find_nsys
from perftui.run.layout import RunLayout
from perftui.run.manifest import Status, read_manifest
from perftui.wire.spool import AgentOptions
from tests.terminal import Terminal

pytestmark = pytest.mark.subprocess

HELP = """
    --capture-range=none,cudaProfilerApi,hotkey,nvtx
    --capture-range-end=none,stop,stop-shutdown,repeat[:N],repeat-shutdown:N
    --cpuctxsw= --force-overwrite= --kill= --output= --sample= --show-output= --trace= --wait=
"""

NSYS = """#!{python}
import os, pathlib, subprocess, sys
words = sys.argv[1:]
if words == ["--version"]:
    print("NVIDIA Nsight Systems version {version}")
    sys.exit()
if words == ["profile", "--help"]:
    print({help!r})
    sys.exit()
assert words.pop(0) == "profile"
options = {{}}
while words[0].startswith("--"):
    name, _, options[name] = words.pop(0).partition("=")
(pathlib.Path(__file__).parent / "asked").write_text(repr(options))
print("noise of nsys", flush=True)
print("more of it", file=sys.stderr, flush=True)
if {fails}:
    sys.exit(3)
# It keeps the output for itself, hands on no other files, and ends in its own way.
done = subprocess.run(words, stdout=subprocess.PIPE, close_fds={closes}, start_new_session={closes})
pathlib.Path(options["--output"] + ".1.nsys-rep").write_bytes(done.stdout)
sys.exit(0)
"""


@pytest.fixture
def nsys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Puts an nsys on the path."""

    def put(
        version: str = "2024.5.1.113-245134619542v0",
        usage: str = HELP,
        closes: bool = True,
        fails: bool = False,
    ) -> Path:
        directory = tmp_path / "bin"
        directory.mkdir(exist_ok=True)
        fake = directory / "nsys"
        fake.write_text(
            NSYS.format(
                python=sys.executable, version=version, help=usage, closes=closes, fails=fails
            )
        )
        fake.chmod(0o755)
        monkeypatch.setenv("PATH", f"{directory}{os.pathsep}{os.environ['PATH']}")
        return directory

    return put


SCRIPT = """
import os, sys
print("out", sys.stdout.isatty(), flush=True)
print("err", file=sys.stderr, flush=True)
print(sys.stdin.readline().strip() if len(sys.argv) > 1 else "", flush=True)
sys.exit(7)
"""

FOREGROUND = """
import sys
from pathlib import Path
from perftui.recorder.foreground import run_as_command
from perftui.recorder.launch import Launch
from perftui.wire.spool import AgentOptions
run_as_command(Launch(
    (sys.executable, *sys.argv[2:]), Path.cwd(), Path(sys.argv[1]), options=AgentOptions(nsys=True)
))
"""


def foreground(tmp_path: Path, source: str, *words: str) -> subprocess.Popen[str]:
    script = tmp_path / "train.py"
    script.write_text(source)
    command = [sys.executable, "-c", FOREGROUND, str(tmp_path / "runs"), str(script), *words]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, text=True, cwd=tmp_path, **pipes)  # type: ignore[call-overload, no-any-return]


def run_of(tmp_path: Path) -> RunLayout:
    (root,) = (tmp_path / "runs").iterdir()
    return RunLayout(root)


@pytest.mark.parametrize("closes", [True, False])
def test_streams_and_exit_code_are_those_of_the_script(
    nsys: Any, tmp_path: Path, closes: bool
) -> None:
    directory = nsys(closes=closes)
    process = foreground(tmp_path, SCRIPT, "reads")
    out, err = process.communicate("typed\n", timeout=60)

    assert (process.returncode, out, err) == (7, "out False\ntyped\n", "err\n")
    layout = run_of(tmp_path)
    (report,) = layout.nsys_reports()
    assert (report.name, report.read_bytes()) == ("steps.1.nsys-rep", b"")
    assert (layout.nsys / "nsys.log").read_text() == "noise of nsys\nmore of it\n"
    assert sorted(layout.output.read_text()) == sorted(out + err)
    manifest = read_manifest(layout.manifest)
    assert (manifest.status, manifest.exit_code) == (Status.EXITED, 7)
    assert manifest.command == (sys.executable, str(tmp_path / "train.py"), "reads")
    asked = (directory / "asked").read_text()
    assert asked == repr(
        {
            "--trace": "cuda,nvtx,osrt",
            "--sample": "none",
            "--cpuctxsw": "none",
            "--capture-range": "cudaProfilerApi",
            "--capture-range-end": "repeat",
            "--kill": "none",
            "--wait": "primary",
            "--force-overwrite": "true",
            "--output": str(layout.nsys / "steps"),
        }
    )


CATCHING = """
import os, signal, sys, time
def caught(number, frame):
    print("caught", number, flush=True)
    sys.exit(5)
signal.signal(signal.SIGTERM, caught)
print("ready", flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize(
    ("number", "code", "said"),
    [(signal.SIGTERM, 5, "caught 15\n"), (signal.SIGINT, -signal.SIGINT, "")],
)
def test_a_signal_reaches_the_script_and_its_end_is_ours(
    nsys: Any, tmp_path: Path, number: int, code: int, said: str
) -> None:
    nsys()
    process = foreground(tmp_path, CATCHING)
    assert process.stdout.readline() == "ready\n"
    process.send_signal(number)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (code, said)
    assert ("KeyboardInterrupt" in err) == (number == signal.SIGINT)
    assert len(run_of(tmp_path).nsys_reports()) == 1


KEYS = """
import os, sys, time
print("terminal", [os.isatty(n) for n in range(3)], flush=True)
print("read", input(), flush=True)
try:
    time.sleep(60)
except KeyboardInterrupt:
    print("interrupted", flush=True)
    time.sleep(0.5)
    sys.exit(9)
"""


@pytest.mark.slow
@pytest.mark.parametrize("closes", [True, False])
def test_keys_reach_the_script_once_and_not_nsys(nsys: Any, tmp_path: Path, closes: bool) -> None:
    nsys(closes=closes)
    script = tmp_path / "train.py"
    script.write_text(KEYS)
    command = [sys.executable, "-c", FOREGROUND, str(tmp_path / "runs"), str(script)]
    terminal = Terminal(command, tmp_path)
    terminal.wait_for("terminal [True, True, True]")
    terminal.press("typed\n")
    terminal.wait_for("read typed")
    terminal.press("\x03")
    terminal.wait_for("interrupted")

    assert terminal.wait() == 9
    assert "Traceback" not in terminal.text
    assert len(run_of(tmp_path).nsys_reports()) == 1


KILLED = """
import json, os, signal
print(json.dumps(["PERFTUI_SPOOL" in os.environ, os.getppid()]), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_the_agent_is_in_the_script_and_a_killed_one_is_reported_as_killed(
    nsys: Any, run_script: Any
) -> None:
    nsys()
    run = run_script(KILLED, options=AgentOptions(nsys=True))
    run.wait()

    assert (run.manifest.status, run.manifest.exit_code) == (Status.KILLED, 137)
    armed, parent = json.loads(run.layout.output.read_text())
    assert armed
    assert parent != run.manifest.pid


def test_an_nsys_that_fails_is_said_with_where_it_says_why(nsys: Any, tmp_path: Path) -> None:
    nsys(fails=True)
    process = foreground(tmp_path, SCRIPT)
    out, err = process.communicate(timeout=60)

    log = run_of(tmp_path).nsys / "nsys.log"
    assert (process.returncode, out) == (3, "")
    assert err == f"perftui: nsys ended before it started the script; see {log}\n"
    assert read_manifest(run_of(tmp_path).manifest).message == err[9:-1]


def test_without_nsys_nothing_is_started(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    process = foreground(tmp_path, SCRIPT)
    out, err = process.communicate(timeout=60)

    assert (process.returncode, out) == (2, "")
    assert "install Nsight Systems" in err
    assert "drop --nsys" in err


def test_what_an_nsys_takes_is_asked_of_itself(nsys: Any) -> None:
    nsys("2021.2.1", "--capture-range --capture-range-end=none,stop,stop-shutdown --trace --kill")

    _, version, options = find_nsys()
    assert version == "2021.2.1"
    assert options == (
        "--trace=cuda,nvtx,osrt",
        "--capture-range=cudaProfilerApi",
        "--capture-range-end=stop",
        "--kill=none",
    )


@pytest.mark.parametrize(
    ("version", "usage", "said"),
    [
        ("2020.4.3", HELP, "nsys 2020.4.3 is too old"),
        ("2021.1.1", "--capture-range --stop-on-range-end", "cannot record some steps"),
        ("of something else", HELP, "which is no nsys version"),
    ],
)
def test_an_nsys_that_cannot_do_it_is_refused(
    nsys: Any, version: str, usage: str, said: str
) -> None:
    nsys(version, usage)

    with pytest.raises(NsysError, match=said):
        find_nsys()
