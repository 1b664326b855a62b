"""A training in the foreground behaves as it would without us, byte for byte."""

import contextlib
import fcntl
import json
import os
import pty
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from perftui.run.manifest import Manifest, Status
from perftui.run.reader import list_runs
from tests.terminal import Terminal

pytestmark = pytest.mark.subprocess

FOREGROUND = """
import sys
from pathlib import Path
from perftui.recorder.foreground import run_as_command
from perftui.recorder.launch import Launch
run_as_command(Launch(tuple(sys.argv[2:]), Path.cwd(), Path(sys.argv[1])))
"""


def _recorded(tmp_path: Path, source: str, before: str = "") -> list[str]:
    """The command that records ``source`` after ``before`` in the recorder itself."""
    recorder = [sys.executable, "-c", before + FOREGROUND, str(tmp_path / "runs")]
    return [*recorder, sys.executable, "-c", source]


def _started(tmp_path: Path, source: str, **more: Any) -> tuple[subprocess.Popen[bytes], bytes]:
    """A recording with its output in a pipe, and its first line."""
    command = _recorded(tmp_path, source)
    recorded = subprocess.Popen(command, stdout=subprocess.PIPE, **more)
    return recorded, recorded.stdout.readline()


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
    command = [sys.executable, "-c", source], _recorded(tmp_path, source)
    alone, recorded = (
        subprocess.run(one, input=b"typed", capture_output=True, check=False) for one in command
    )
    code = alone.returncode
    assert (recorded.stdout, recorded.stderr) == (alone.stdout, alone.stderr)
    assert recorded.returncode == code
    manifest = _manifest(tmp_path)
    expected = (Status.KILLED, 128 - code) if code < 0 else (Status.EXITED, code)
    assert (manifest.status, manifest.exit_code) == expected
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
    recorded, _ = _started(tmp_path, source)
    recorded.send_signal(number)
    rest, _ = recorded.communicate()
    assert rest == b"got %d\n" % number
    assert recorded.returncode == 4


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
    recorded, line = _started(tmp_path, source, cwd=tmp_path)
    script = int(line)
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
    recorded, line = _started(tmp_path, source, stdin=subprocess.PIPE)
    script = int(line)
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
        _recorded(tmp_path, source),
        stdout=subprocess.PIPE,
        preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN),
        check=True,
    )
    assert recorded.stdout == b"True\n"


def test_reader_that_goes_away_is_noticed_as_without_us(tmp_path: Path) -> None:
    source = "while True: print('x' * 1000)"
    recorded, _ = _started(tmp_path, source, stderr=subprocess.PIPE)
    recorded.stdout.close()
    assert b"BrokenPipeError" in recorded.stderr.read()
    assert recorded.wait() == 1
    recorded.stderr.close()


def test_command_that_cannot_be_started(tmp_path: Path) -> None:
    command = [*_recorded(tmp_path, "")[:4], "/nowhere/python", "train.py"]
    recorded = subprocess.run(command, capture_output=True, check=False)
    assert recorded.returncode == 2
    assert recorded.stderr == b"perftui: cannot start /nowhere/python: No such file or directory\n"
    assert recorded.stdout == b""


@pytest.mark.slow
def test_much_output_passes_whole_and_in_order(tmp_path: Path) -> None:
    source = "import sys\nfor n in range(400_000): sys.stdout.write(f'line {n:019d}\\n')"
    recorded = subprocess.run(_recorded(tmp_path, source), stdout=subprocess.PIPE, check=True)
    expected = b"".join(b"line %019d\n" % n for n in range(400_000))
    assert recorded.stdout == expected
    assert _log(tmp_path) == expected


def test_on_a_terminal_the_script_has_one_of_the_same_size_and_all_keys(tmp_path: Path) -> None:
    source = (
        "import os, signal, sys, time\n"
        "print([f.isatty() for f in (sys.stdin, sys.stdout, sys.stderr)])\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print('now', tuple(os.get_terminal_size())))\n"
        "print(tuple(os.get_terminal_size()))\n"
        "print('hello', input('name? '))\n"
        "try:\n    time.sleep(600)\n"
        "except KeyboardInterrupt:\n    print('interrupted'); raise SystemExit(9)\n"
    )
    console = Terminal(_recorded(tmp_path, source), tmp_path, columns=90, rows=30)
    console.wait_for("name?")
    assert b"[True, True, True]\r\n(90, 30)\r\n" in console.written
    console.resize(120, 40)
    console.wait_for("now (120, 40)")
    console.press("you\r")
    console.wait_for("hello you")
    console.press("\x03")
    console.wait_for("interrupted")
    assert console.wait() == 9


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
    command = _recorded(tmp_path, UNTIL_SAID % (str(tmp_path), wanted), broken)
    done = subprocess.run(command, capture_output=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (7, b"loss\n", b"")
    assert _manifest(tmp_path).exit_code == 7
    (entry,) = list_runs(tmp_path / "runs")
    assert said in (entry.root / "recorder.log").read_text()
    if said == "ZeroDivisionError":
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
    read, write = os.pipe()
    start = time.monotonic()
    command = _recorded(tmp_path, LEFT_BEHIND % (lines, pause))
    process = subprocess.Popen(command, stdout=write, stderr=write)
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
    "SpoolDrain.finish = slow\n"
)


@pytest.mark.parametrize(("ending", "code"), [("sys.exit(7)", 7), ("os.kill(os.getpid(), 2)", -2)])
def test_signal_that_comes_after_the_script_has_ended_changes_nothing(
    tmp_path: Path, ending: str, code: int
) -> None:
    command = _recorded(tmp_path, f"import os, sys; {ending}", ENDING_SLOWLY)
    recorded = subprocess.Popen(command, stderr=subprocess.PIPE)
    while b"ending" not in (line := recorded.stderr.readline()):
        assert line
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        recorded.send_signal(number)
    recorded.stderr.read()
    assert recorded.wait() == code
    recorded.stderr.close()
    assert _manifest(tmp_path).exit_code == (code if code >= 0 else 128 - code)


NEEDED = {
    "tempfile.mkdtemp": "there is no directory to record to",
    "os.openpty": "no terminal can be made for the script",
}


@pytest.mark.parametrize("function", NEEDED)
def test_run_that_has_no_room_or_gets_no_terminal_is_over(tmp_path: Path, function: str) -> None:
    broken = (
        "import os, tempfile\n"
        "def fails(**_):\n"
        "    raise OSError(28, 'No space left on device')\n"
        f"{function} = fails\n"
    )
    console = Terminal(_recorded(tmp_path, "print('on')", broken), tmp_path)
    said = f"{NEEDED[function]}: No space left on device"
    assert console.wait() == 2
    assert console.written == f"perftui: {said}\r\n".encode()
    assert (_manifest(tmp_path).status, _manifest(tmp_path).message) == (Status.EXITED, said)


def test_run_whose_recorder_was_killed_before_the_script_started_is_lost(tmp_path: Path) -> None:
    broken = (
        "import os, subprocess\n"
        "def killed(*_, **__):\n"
        "    os.kill(os.getpid(), 9)\n"
        "subprocess.Popen = killed\n"
    )
    done = subprocess.run(
        _recorded(tmp_path, "print('on')", broken), capture_output=True, check=False
    )
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
    command = _recorded(tmp_path, "import time; time.sleep(0.5); raise SystemExit(7)", broken)
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


SHELL = """
import os, signal, sys
from pathlib import Path

def to_foreground(group):
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTTOU])
    os.tcsetpgrp(0, group)
    signal.pthread_sigmask(signal.SIG_SETMASK, before)

def wait():
    _, status = os.waitpid(job, os.WUNTRACED)
    to_foreground(os.getpgrp())
    if os.WIFSTOPPED(status):
        print("shell: stopped by", signal.Signals(os.WSTOPSIG(status)).name, flush=True)
    else:
        print("shell: ended with", os.waitstatus_to_exitcode(status), flush=True)
        sys.exit()

job = os.fork()
if job == 0:
    os.setpgid(0, 0)
    to_foreground(os.getpgrp())
    from perftui.recorder.foreground import run_as_command
    from perftui.recorder.launch import Launch
    run_as_command(Launch((sys.executable, "-c", sys.argv[1]), Path.cwd(), Path(sys.argv[2])))
wait()
for line in sys.stdin:
    command = line.strip()
    print("shell:", command, flush=True)
    if command in ("fg", "bg"):
        if command == "fg":
            to_foreground(job)
        os.killpg(job, signal.SIGCONT)
    if command in ("fg", "wait"):
        wait()
"""


WAITING = """
import sys, time
from pathlib import Path
print("on", flush=True)
while not Path("go").exists():
    time.sleep(0.02)
print("gone on", flush=True)
{then}
sys.exit(5)
"""


def suspended(tmp_path: Path, then: str = "") -> Terminal:
    """A shell whose job, the recorded script, was suspended by a key."""
    source = WAITING.format(then=then)
    shell = Terminal([sys.executable, "-c", SHELL, source, str(tmp_path / "runs")], tmp_path)
    shell.wait_for("on")
    shell.press("\x1a")
    shell.wait_for("shell: stopped by SIGSTOP")
    return shell


def test_script_that_was_suspended_ends_without_another_key(tmp_path: Path) -> None:
    shell = suspended(tmp_path)
    shell.press("fg\n")
    shell.wait_for("shell: fg")
    (tmp_path / "go").touch()
    shell.wait_for("gone on")
    shell.wait_for("shell: ended with 5")
    shell.wait()


@pytest.mark.parametrize("asks", [False, True], ids=["ends there", "is brought back"])
def test_script_goes_on_in_the_background_and_has_the_keys_when_it_is_brought_back(
    tmp_path: Path, asks: bool
) -> None:
    shell = suspended(tmp_path, "print('hello', input('name? '), flush=True)" * asks)
    shell.press("bg\n")
    shell.wait_for("shell: bg")
    (tmp_path / "go").touch()
    shell.wait_for("name?" if asks else "gone on")
    # The keys are the shell's: whoever else read them would be stopped for it.
    shell.press("fg\n" if asks else "wait\n")
    if asks:
        shell.wait_for("shell: fg")
        shell.press("you\r")
        shell.wait_for("hello you")
    shell.wait_for("shell: ended with 5")
    shell.wait()


LIST = """
import json, os, sys
from pathlib import Path
opened = []
for file in range(3, 1024):
    try:
        os.fstat(file)
        opened.append(file)
    except OSError:
        pass
text = os.pread(int(sys.argv[2]), 100, 0).decode()
Path(sys.argv[1]).write_text(json.dumps([opened, text]))
"""

DETACHED = """
import sys, time
from pathlib import Path
from perftui.recorder.launch import Launch, start
from perftui.run.layout import RunLayout
from perftui.run.manifest import read_manifest
root = start(Launch(tuple(sys.argv[2:]), Path.cwd(), Path(sys.argv[1])))
while not read_manifest(RunLayout(root).manifest).status.is_over:
    time.sleep(0.02)
"""


@pytest.fixture
def given(tmp_path: Path) -> Iterator[int]:
    """A descriptor for the script, as ``3<file`` makes one."""
    path = tmp_path / "file"
    path.write_text("for the script")
    file = os.open(path, os.O_RDONLY)
    yield file
    os.close(file)


def on_pipes(command: list[str], given: int) -> None:
    subprocess.run(command, pass_fds=[given], capture_output=True, check=True)


def on_a_terminal(command: list[str], given: int) -> None:
    os.set_inheritable(given, True)
    pid, ours = pty.fork()
    if pid == 0:
        os.execv(command[0], command)  # noqa: S606 - the test's own command
    with contextlib.suppress(OSError):
        while os.read(ours, 1000):
            pass
    os.close(ours)
    assert os.waitpid(pid, 0)[1] == 0


@pytest.mark.parametrize(
    ("recorder", "run"),
    [(FOREGROUND, on_pipes), (FOREGROUND, on_a_terminal), (DETACHED, on_pipes)],
    ids=["foreground, pipes", "foreground, terminal", "detached"],
)
def test_descriptors_are_those_that_the_script_alone_would_have(
    tmp_path: Path, given: int, recorder: str, run: Callable[[list[str], int], None]
) -> None:
    seen = tmp_path / "seen"
    script = [sys.executable, "-c", LIST, str(seen), str(given)]
    run(script, given)
    alone = json.loads(seen.read_text())
    seen.unlink()
    run([sys.executable, "-c", recorder, str(tmp_path / "runs"), *script], given)
    assert json.loads(seen.read_text()) == alone
    assert alone[1] == "for the script"
