"""A training in the foreground behaves as it would without us, byte for byte."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

import psutil
import pytest

from perftui.run.history import list_runs
from perftui.run.manifest import Manifest, Status

pytestmark = pytest.mark.subprocess

FOREGROUND = (
    "import sys\n"
    "from pathlib import Path\n"
    "from perftui.recorder.foreground import run_as_command\n"
    "from perftui.recorder.launch import Launch\n"
    "run_as_command(Launch(tuple(sys.argv[2:]), Path.cwd(), Path(sys.argv[1])))\n"
)


def _recorded(tmp_path: Path, command: Sequence[str]) -> list[str]:
    return [sys.executable, "-c", FOREGROUND, str(tmp_path / "runs"), *command]


def _manifest(tmp_path: Path) -> Manifest:
    (entry,) = list_runs(tmp_path / "runs")
    assert entry.manifest is not None
    return entry.manifest


def _log(tmp_path: Path) -> bytes:
    (entry,) = list_runs(tmp_path / "runs")
    return (entry.root / "output.log").read_bytes()


@pytest.mark.parametrize(
    "source",
    [
        "print('loss', 0.1 + 0.2)",
        "import sys; print('a'); sys.stdout.flush(); print('b', file=sys.stderr); sys.exit(7)",
        "import sys; print(sys.stdin.read().upper())",
        "import sys; sys.stdout.buffer.write(bytes(range(256)) * 1000)",
        "raise ValueError('no')",
        "import sys; print([f.isatty() for f in (sys.stdin, sys.stdout, sys.stderr)])",
        "import os; os.kill(os.getpid(), 15)",
        "import os; os.abort()",
        "import os; os.kill(os.getpid(), 9)",
        "import os; os._exit(255)",
    ],
)
def test_output_errors_and_exit_code_are_those_of_the_script_alone(
    tmp_path: Path, source: str
) -> None:
    command = [sys.executable, "-c", source]
    alone = subprocess.run(command, input=b"typed", capture_output=True, check=False)
    recorded = subprocess.run(
        _recorded(tmp_path, command), input=b"typed", capture_output=True, check=False
    )
    assert recorded.stdout == alone.stdout
    assert recorded.stderr == alone.stderr
    assert recorded.returncode == alone.returncode
    manifest = _manifest(tmp_path)
    if alone.returncode < 0:
        assert (manifest.status, manifest.exit_code) == (Status.KILLED, 128 - alone.returncode)
    else:
        assert (manifest.status, manifest.exit_code) == (Status.EXITED, alone.returncode)
    assert sorted(_log(tmp_path)) == sorted(alone.stdout + alone.stderr)


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGINT,
        signal.SIGTERM,
        signal.SIGHUP,
        signal.SIGUSR1,
        signal.SIGUSR2,
        signal.SIGABRT,
        signal.SIGALRM,
        signal.SIGXCPU,
    ],
)
def test_signal_sent_to_us_reaches_the_script_once(tmp_path: Path, number: signal.Signals) -> None:
    source = (
        "import signal, sys, time\n"
        "got = []\n"
        "def handle(number, frame):\n    got.append(1), print('got', number, flush=True)\n"
        f"signal.signal({int(number)}, handle)\n"
        "print('on', flush=True)\n"
        "until = time.monotonic() + 20\n"
        "while not got and time.monotonic() < until:\n    time.sleep(0.01)\n"
        "time.sleep(0.5)\n"
        "sys.exit(4)\n"
    )
    recorded = subprocess.Popen(
        _recorded(tmp_path, [sys.executable, "-c", source]), stdout=subprocess.PIPE
    )
    assert recorded.stdout is not None
    assert recorded.stdout.readline() == b"on\n"
    recorded.send_signal(number)
    rest, _ = recorded.communicate()
    assert rest == b"got %d\n" % number
    assert recorded.returncode == 4


def test_signal_that_kills_the_script_kills_us_the_same_way(tmp_path: Path) -> None:
    source = "import time; print('on', flush=True); time.sleep(600)"
    recorded = subprocess.Popen(
        _recorded(tmp_path, [sys.executable, "-c", source]), stdout=subprocess.PIPE
    )
    assert recorded.stdout is not None
    assert recorded.stdout.readline() == b"on\n"
    recorded.terminate()
    recorded.communicate()
    assert recorded.returncode == -signal.SIGTERM


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells a child")
def test_silent_script_is_told_when_we_are_killed(tmp_path: Path) -> None:
    source = (
        "import os, signal, time\n"
        "def save(*_):\n    open('saved', 'w').close()\n    os._exit(0)\n"
        "signal.signal(signal.SIGTERM, save)\n"
        "print(os.getpid(), flush=True)\n"
        "time.sleep(600)\n"
    )
    recorded = subprocess.Popen(
        _recorded(tmp_path, [sys.executable, "-c", source]), stdout=subprocess.PIPE, cwd=tmp_path
    )
    assert recorded.stdout is not None
    script = int(recorded.stdout.readline())
    recorded.kill()
    recorded.communicate()
    until = time.monotonic() + 20
    while psutil.pid_exists(script):
        assert time.monotonic() < until
        time.sleep(0.01)
    assert (tmp_path / "saved").exists()


def _state(pid: int) -> str:
    return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]


def _wait_for_state(pid: int, states: str) -> None:
    until = time.monotonic() + 20
    while _state(pid) not in states:
        assert time.monotonic() < until, f"{pid} is {_state(pid)}, not one of {states}"
        time.sleep(0.01)


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="reads process states from /proc")
def test_suspending_and_continuing_us_does_so_to_the_script(tmp_path: Path) -> None:
    source = "import os; print(os.getpid(), flush=True); input(); print('end')"
    recorded = subprocess.Popen(
        _recorded(tmp_path, [sys.executable, "-c", source]),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    assert recorded.stdout is not None
    script = int(recorded.stdout.readline())
    recorded.send_signal(signal.SIGTSTP)
    _wait_for_state(recorded.pid, "T")
    _wait_for_state(script, "T")
    recorded.send_signal(signal.SIGCONT)
    _wait_for_state(script, "SR")
    rest, _ = recorded.communicate(b"\n")
    assert rest == b"end\n"
    assert recorded.returncode == 0


def test_hang_up_that_nohup_ignores_stays_ignored(tmp_path: Path) -> None:
    source = "import signal; print(signal.getsignal(signal.SIGHUP) == signal.SIG_IGN)"
    recorded = subprocess.run(
        _recorded(tmp_path, [sys.executable, "-c", source]),
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        check=True,
    )
    assert recorded.stdout == b"True\n"


def test_reader_that_goes_away_is_noticed_as_without_us(tmp_path: Path) -> None:
    source = "while True: print('x' * 1000)"
    command = _recorded(tmp_path, [sys.executable, "-c", source])
    recorded = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert recorded.stdout is not None
    recorded.stdout.readline()
    recorded.stdout.close()
    assert recorded.stderr is not None
    assert b"BrokenPipeError" in recorded.stderr.read()
    assert recorded.wait() == 1
    recorded.stderr.close()


def test_closed_stdin_is_closed_for_the_script(tmp_path: Path) -> None:
    source = "import sys; print(repr(sys.stdin.read()))"
    command = _recorded(tmp_path, [sys.executable, "-c", source])
    recorded = subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, check=True)
    assert recorded.stdout == b"''\n"


def test_command_that_cannot_be_started(tmp_path: Path) -> None:
    command = _recorded(tmp_path, ["/nowhere/python", "train.py"])
    recorded = subprocess.run(command, capture_output=True, check=False)
    assert recorded.returncode == 2
    assert recorded.stderr == b"perftui: cannot start /nowhere/python: No such file or directory\n"
    assert recorded.stdout == b""


@pytest.mark.slow
def test_much_output_passes_whole_and_in_order(tmp_path: Path) -> None:
    source = "import sys\nfor n in range(400_000): sys.stdout.write(f'line {n:019d}\\n')"
    command = _recorded(tmp_path, [sys.executable, "-c", source])
    recorded = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    expected = b"".join(b"line %019d\n" % n for n in range(400_000))
    assert recorded.stdout == expected
    assert _log(tmp_path) == expected


class Console:
    """A terminal on which a recorded script runs as the foreground job, as from a shell."""

    def __init__(self, tmp_path: Path, source: str) -> None:
        self.seen = b""
        self.pid, self._file = pty.fork()
        if self.pid == 0:
            command = _recorded(tmp_path, [sys.executable, "-c", source])
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 90, 0, 0))
            os.execv(command[0], command)  # noqa: S606 - the test's own command

    def read_until(self, text: bytes) -> None:
        while text not in self.seen:
            assert select.select([self._file], [], [], 20)[0], f"no {text!r} after {self.seen!r}"
            self.seen += os.read(self._file, 4096)

    def type(self, keys: bytes) -> None:
        os.write(self._file, keys)

    def resize(self, rows: int, columns: int) -> None:
        fcntl.ioctl(self._file, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def returncode(self) -> int:
        _, status = os.waitpid(self.pid, 0)
        os.close(self._file)
        return os.waitstatus_to_exitcode(status)


def test_on_a_terminal_the_script_has_one_of_the_same_size(tmp_path: Path) -> None:
    source = (
        "import os, signal, sys\n"
        "print([f.isatty() for f in (sys.stdin, sys.stdout, sys.stderr)])\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print('now', tuple(os.get_terminal_size())))\n"
        "print(tuple(os.get_terminal_size()))\n"
        "print('hello', input('name? '))\n"
        "sys.exit(6)\n"
    )
    console = Console(tmp_path, source)
    console.read_until(b"name? ")
    assert b"[True, True, True]\r\n(90, 30)\r\n" in console.seen
    console.resize(40, 120)
    console.read_until(b"now (120, 40)")
    console.type(b"you\r")
    console.read_until(b"hello you\r\n")
    assert console.returncode() == 6


def test_interrupt_key_reaches_the_script(tmp_path: Path) -> None:
    source = (
        "import time\n"
        "try:\n    print('on', flush=True); time.sleep(600)\n"
        "except KeyboardInterrupt:\n    print('interrupted'); raise SystemExit(9)\n"
    )
    console = Console(tmp_path, source)
    console.read_until(b"on")
    console.type(b"\x03")
    console.read_until(b"interrupted")
    assert console.returncode() == 9


UNTIL_SAID = """
import pathlib, time
print("loss", flush=True)
time.sleep(0.5)
until = time.monotonic() + 20
runs, wanted = pathlib.Path(%r, "runs"), %r
while time.monotonic() < until:
    if any(wanted in log.read_text() for log in runs.glob("*/recorder.log")):
        break
    time.sleep(0.1)
raise SystemExit(7)
"""


@pytest.mark.parametrize(
    ("broken", "said"),
    [
        (
            "from perftui.recorder.drain import SpoolDrain as Broken\n"
            "Broken.finish = lambda self: 1 / 0\n",
            "ZeroDivisionError",
        ),
        # Globbing raises whatever a network disk or a lack of descriptors makes of it.
        (
            "import os, pathlib\n"
            "glob = pathlib.Path.glob\n"
            "def failing(path, pattern):\n"
            "    if path.name == 'control':\n"
            "        raise OSError(116, 'Stale file handle')\n"
            "    return glob(path, pattern)\n"
            "pathlib.Path.glob = failing\n",
            "requests: [Errno 116] Stale file handle",
        ),
        (
            "import errno, pathlib\n"
            "glob = pathlib.Path.glob\n"
            "def failing(path, pattern):\n"
            "    if pattern == 'rank-*':\n"
            "        raise OSError(24, 'Too many open files')\n"
            "    return glob(path, pattern)\n"
            "pathlib.Path.glob = failing\n",
            "start of the diagnosis: OSError",
        ),
    ],
    ids=["the last records", "requests", "ranks"],
)
def test_error_of_ours_changes_neither_output_nor_code(
    tmp_path: Path, broken: str, said: str
) -> None:
    # On a busy machine the recorder may come to its requests late.
    wanted = said if said.startswith("requests") else ""
    source = UNTIL_SAID % (str(tmp_path), wanted)
    script = [sys.executable, "-c", source]
    command = [sys.executable, "-c", broken + FOREGROUND, str(tmp_path / "runs"), *script]
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"loss\n", b"")
    assert _manifest(tmp_path).exit_code == 7
    (entry,) = list_runs(tmp_path / "runs")
    assert said in (entry.root / "recorder.log").read_text()


def test_last_records_that_cannot_be_written_are_said_in_the_run(tmp_path: Path) -> None:
    broken = "from perftui.recorder.drain import SpoolDrain as Broken\n"
    subprocess.run(_broken(tmp_path, broken + "Broken.finish = lambda self: 1 / 0\n"), check=True)
    (note,) = _manifest(tmp_path).notes
    assert note.startswith("the last records could not be written: ZeroDivisionError")


LEFT_BEHIND = """
import os, sys, time
print("bye", flush=True)
if os.fork():
    os._exit(3)
for n in range(%d):
    time.sleep(%s)
    os.write(1, b"late\\n")
"""


@pytest.mark.slow
@pytest.mark.parametrize(("lines", "pause"), [(1, 1.0), (60, 0.1)])
def test_output_of_processes_left_behind_arrives(tmp_path: Path, lines: int, pause: float) -> None:
    script = [sys.executable, "-c", LEFT_BEHIND % (lines, pause)]
    read, write = os.pipe()
    start = time.monotonic()
    process = subprocess.Popen(_recorded(tmp_path, script), stdout=write, stderr=write)
    os.close(write)
    assert process.wait() == 3
    arrived = struct.unpack("i", fcntl.ioctl(read, termios.FIONREAD, bytes(4)))[0]
    said = b"bye\n" + b"late\n" * lines
    with os.fdopen(read, "rb") as output:
        assert output.read() == said
    assert time.monotonic() - start > lines * pause
    # The exit code does not wait for all of it.
    if lines > 1:
        assert arrived < len(said)


ENDING_SLOWLY = (
    "import sys, time\n"
    "from perftui.recorder.drain import SpoolDrain\n"
    "def slow(self):\n"
    "    sys.stderr.write('ending\\n')\n"
    "    time.sleep(0.5)\n"
    "SpoolDrain.finish = slow\n" + FOREGROUND
)


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 2)", -2)])
def test_signal_that_comes_after_the_script_has_ended_changes_nothing(
    tmp_path: Path, ending: str, code: int
) -> None:
    script = [sys.executable, "-c", f"import os, sys; {ending}"]
    command = [sys.executable, "-c", ENDING_SLOWLY, str(tmp_path / "runs"), *script]
    recorded = subprocess.Popen(command, stderr=subprocess.PIPE)
    assert recorded.stderr is not None
    while b"ending" not in (line := recorded.stderr.readline()):
        assert line
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        recorded.send_signal(number)
    recorded.stderr.read()
    assert recorded.wait() == code
    recorded.stderr.close()
    assert _manifest(tmp_path).exit_code == (code if code >= 0 else 128 - code)


def _broken(tmp_path: Path, broken: str) -> list[str]:
    script = [sys.executable, "-c", "print('on')"]
    return [sys.executable, "-c", broken + FOREGROUND, str(tmp_path / "runs"), *script]


def test_run_that_has_no_room_to_record_to_is_over(tmp_path: Path) -> None:
    broken = (
        "import tempfile\n"
        "def full(**_):\n"
        "    raise OSError(28, 'No space left on device')\n"
        "tempfile.mkdtemp = full\n"
    )
    done = subprocess.run(_broken(tmp_path, broken), capture_output=True, check=False)
    said = "there is no directory to record to: No space left on device"
    assert (done.returncode, done.stdout) == (2, b"")
    assert done.stderr == f"perftui: {said}\n".encode()
    assert (_manifest(tmp_path).status, _manifest(tmp_path).message) == (Status.EXITED, said)


def test_run_that_gets_no_terminal_is_over(tmp_path: Path) -> None:
    broken = (
        "import os\n"
        "def none_left():\n"
        "    raise OSError(28, 'out of pty devices')\n"
        "os.openpty = none_left\n"
    )
    pid, ours = pty.fork()
    if pid == 0:
        command = _broken(tmp_path, broken)
        os.execv(command[0], command)  # noqa: S606 - the test's own command
    seen = b""
    while b"\n" not in seen:
        seen += os.read(ours, 4096)
    said = "no terminal can be made for the script: out of pty devices"
    assert seen == f"perftui: {said}\r\n".encode()
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 2
    os.close(ours)
    assert (_manifest(tmp_path).status, _manifest(tmp_path).message) == (Status.EXITED, said)


def test_run_whose_recorder_was_killed_before_the_script_started_is_lost(tmp_path: Path) -> None:
    broken = (
        "import os, subprocess\n"
        "def killed(*_, **__):\n"
        "    os.kill(os.getpid(), 9)\n"
        "subprocess.Popen = killed\n"
    )
    done = subprocess.run(_broken(tmp_path, broken), capture_output=True, check=False)
    assert done.returncode == -9
    assert _manifest(tmp_path).status is Status.LOST


@pytest.mark.slow
def test_script_is_over_at_once_though_git_and_a_driver_never_answer(tmp_path: Path) -> None:
    tools = tmp_path / "bin"
    tools.mkdir()
    (tools / "git").write_text(f"#!{sys.executable}\nimport time; time.sleep(600)\n")
    (tools / "git").chmod(0o755)
    broken = (
        "import threading\n"
        "from perftui.telemetry.cpu import CpuSource\n"
        "CpuSource.sample = lambda *_: threading.Event().wait()\n"
    )
    script = [sys.executable, "-c", "import time; time.sleep(0.5); raise SystemExit(7)"]
    command = [sys.executable, "-c", broken + FOREGROUND, str(tmp_path / "runs"), *script]
    environment = {**os.environ, "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}"}
    recorded = subprocess.run(
        command, env=environment, capture_output=True, timeout=60, check=False
    )
    assert (recorded.returncode, recorded.stdout, recorded.stderr) == (7, b"", b"")
    assert _manifest(tmp_path).exit_code == 7
    (entry,) = list_runs(tmp_path / "runs")
    assert "sample: it did not answer" in (entry.root / "recorder.log").read_text()
    left = [one for one in psutil.process_iter(["cmdline"]) if str(tools) in str(one.info)]
    assert left == []
