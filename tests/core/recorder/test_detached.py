"""A training on a terminal of its own: what it meets, and how it ends."""

import itertools
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from perftui.recorder import launch
from perftui.recorder.launch import Launch
from perftui.run.control import request
from perftui.run.manifest import Override, Status, StopReason, read_manifest
from tests.core.recorder.conftest import Starter

pytestmark = pytest.mark.subprocess


def test_exit_code_output_and_times_are_kept(run_script: Starter) -> None:
    run = run_script("import sys; print('loss 0.5'); print('oh', file=sys.stderr); sys.exit(3)")
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code) == (Status.EXITED, 3)
    assert run.output == "loss 0.5\r\noh\r\n"
    assert manifest.ended_ns is not None
    assert manifest.started_ns < manifest.ended_ns
    assert manifest.host == socket.gethostname()
    assert manifest.cpu_count > 0
    assert manifest.memory_bytes > 0
    assert run.layout.recorder_log.read_text() == ""


def test_script_starts_on_a_terminal_with_signals_as_under_a_shell(run_script: Starter) -> None:
    run = run_script(
        "import os, signal, sys\n"
        "print([f.isatty() for f in (sys.stdin, sys.stdout, sys.stderr)])\n"
        "print(tuple(os.get_terminal_size()))\n"
        "print(os.getpgrp() == os.getpid() == os.tcgetpgrp(0), open('/dev/tty').isatty())\n"
        "print(signal.getsignal(signal.SIGHUP) is signal.SIG_DFL,\n"
        "      signal.getsignal(signal.SIGINT) is signal.default_int_handler,\n"
        "      signal.pthread_sigmask(signal.SIG_BLOCK, []))\n",
        rows=33,
        columns=144,
    )
    run.wait()
    expected = ["[True, True, True]", "(144, 33)", "True True", "True True set()", ""]
    assert run.output.split("\r\n") == expected


def test_environment_differs_only_by_what_the_agent_needs(
    run_script: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("NO_COLOR", "1")
    monkeypatch.setenv("PYTHONPATH", "/first:/second")
    monkeypatch.setenv("DEBUG_ME", "1")
    run = run_script(
        "import json, os; print(json.dumps(dict(os.environ)))",
        overrides=(
            Override("environment", {"OMP_NUM_THREADS": 3, "DEBUG_ME": None}),
            Override("DataLoader", {"num_workers": 4}, "train.py", 7),
        ),
        columns=1000,
    )
    run.wait()
    seen = json.loads(run.output)
    before = dict(os.environ)
    changed = {name for name in {*seen, *before} if seen.get(name) != before.get(name)}
    assert changed == {
        "PYTHONPATH",
        "PERFTUI_SPOOL",
        "PERFTUI_OPTIONS",
        "PERFTUI_OVERRIDES",
        "OMP_NUM_THREADS",
        "DEBUG_ME",
    }
    assert seen["PYTHONPATH"] == f"{seen['PERFTUI_SPOOL']}/inject:/first:/second"
    assert seen["OMP_NUM_THREADS"] == "3"
    assert "DEBUG_ME" not in seen
    told = [(one["target"], one["arguments"]) for one in json.loads(seen["PERFTUI_OVERRIDES"])]
    assert told == [
        ("environment", {"OMP_NUM_THREADS": 3, "DEBUG_ME": None}),
        ("DataLoader", {"num_workers": 4}),
    ]
    assert json.loads(seen["PERFTUI_OPTIONS"])["profile"] is True
    assert not Path(seen["PERFTUI_SPOOL"]).exists()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM, signal.SIGSEGV])
def test_script_killed_by_a_signal(run_script: Starter, number: signal.Signals) -> None:
    run = run_script.sleeping()
    assert run.manifest.pid is not None
    os.kill(run.manifest.pid, number)
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code) == (Status.KILLED, 128 + number)


def test_command_that_cannot_be_started_says_why(run_script: Starter, tmp_path: Path) -> None:
    (tmp_path / "not-executable").write_text("")
    for command, cwd, said in (
        ((str(tmp_path / "no-python"), "t.py"), tmp_path, "no-python: No such file"),
        ((str(tmp_path / "not-executable"),), tmp_path, "Permission denied"),
        ((sys.executable,), tmp_path / "gone", "does not exist"),
    ):
        manifest = run_script.start(Launch(command, cwd, tmp_path / "r")).manifest
        assert (manifest.status, manifest.exit_code) == (Status.EXITED, None)
        assert said in (manifest.message or "")


def test_script_that_does_not_exist_ends_as_python_says(
    run_script: Starter, tmp_path: Path
) -> None:
    run = run_script.start(Launch((sys.executable, "missing.py"), tmp_path, tmp_path / "runs"))
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code) == (Status.EXITED, 2)
    assert "missing.py" in run.output


@pytest.mark.slow
def test_much_output_is_kept_whole_and_in_order(run_script: Starter) -> None:
    run = run_script(
        "import sys\nfor n in range(400_000):\n    sys.stdout.write(f'line {n:018d}\\n')\n"
    )
    run.wait()
    lines = run.layout.output.read_bytes().split(b"\r\n")
    assert len(run.layout.output.read_bytes()) == 400_000 * 25
    assert lines[:-1] == [b"line %018d" % n for n in range(400_000)]


def test_killing_the_viewer_leaves_the_training_running(
    run_script: Starter, tmp_path: Path
) -> None:
    script = run_script.script("import time; time.sleep(1.5); print('done')")
    viewer = subprocess.Popen(
        [
            sys.executable,
            "-c",
            "import sys, time\n"
            "from pathlib import Path\n"
            "from perftui.recorder.launch import Launch, start\n"
            "here = Path(sys.argv[1])\n"
            "launch = Launch((sys.executable, sys.argv[2]), here, here / 'runs')\n"
            "print(start(launch), flush=True)\n"
            "time.sleep(600)\n",
            str(tmp_path),
            str(script),
        ],
        stdout=subprocess.PIPE,
        start_new_session=True,
    )
    root = Path(viewer.stdout.readline().decode().strip())
    os.killpg(viewer.pid, signal.SIGHUP)
    os.killpg(viewer.pid, signal.SIGKILL)
    viewer.communicate()
    run = run_script.adopt(root)
    assert run.manifest.status is Status.RUNNING
    assert run.wait().exit_code == 0
    assert run.output == "done\r\n"


def test_recorder_ignores_hang_up_and_interrupt_but_ends_on_terminate(run_script: Starter) -> None:
    run = run_script.sleeping()
    recorder = run.manifest.recorder_pid
    assert recorder is not None
    os.kill(recorder, signal.SIGHUP)
    os.kill(recorder, signal.SIGINT)
    os.kill(recorder, signal.SIGTERM)
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code) == (Status.KILLED, 128 + signal.SIGTERM)


UNTIL_INTERRUPTED = """
import time
try:
    print("on", flush=True); time.sleep(600)
except KeyboardInterrupt:
    print("saved"); raise SystemExit(%d)
"""


@pytest.mark.parametrize(
    ("source", "reason", "status", "code", "state"),
    [
        (None, StopReason.TRIAL, Status.KILLED, 128 + signal.SIGINT, "stopped"),
        (UNTIL_INTERRUPTED % 5, None, Status.EXITED, 5, "exited 5"),
        # One that ends well when it is stopped has ended.
        (UNTIL_INTERRUPTED % 0, StopReason.USER, Status.EXITED, 0, "exited 0"),
    ],
)
def test_a_stop_interrupts_first_and_its_reason_is_written_down(
    run_script: Starter,
    source: str | None,
    reason: StopReason | None,
    status: Status,
    code: int,
    state: str,
) -> None:
    run = run_script.sleeping(source) if source else run_script.sleeping()
    request(run.layout, "stop", **({"reason": reason} if reason else {}))
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code, manifest.state) == (status, code, state)
    assert manifest.stop_reason == reason
    assert ("saved" in run.output) == bool(source)


@pytest.mark.slow
def test_script_that_ignores_interrupt_and_terminate_is_killed_with_its_children(
    run_script: Starter,
) -> None:
    run = run_script(
        "import os, signal, subprocess, sys, time\n"
        "signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'],\n"
        "    start_new_session=True)\n"
        "print(child.pid, 'on', flush=True)\n"
        "time.sleep(600)\n"
    )
    run.wait_for_output("on")
    for _ in range(3):
        request(run.layout, "stop")
    manifest = run.wait()
    assert (manifest.status, manifest.exit_code) == (Status.KILLED, 128 + signal.SIGKILL)
    child = int(run.output.split()[0])
    run_script.wait_for(lambda: not Path(f"/proc/{child}").exists(), "the end of the child")


def test_stopped_script_can_be_ended(run_script: Starter) -> None:
    run = run_script.sleeping()
    assert run.manifest.pid is not None
    os.kill(run.manifest.pid, signal.SIGSTOP)
    request(run.layout, "stop")
    assert run.wait().exit_code == 128 + signal.SIGINT


def test_resize(run_script: Starter) -> None:
    run = run_script.sleeping(
        "import os, signal, time\n"
        "signal.signal(signal.SIGWINCH, lambda *_: print(os.get_terminal_size(), flush=True))\n"
        "print('on', flush=True)\n"
        "time.sleep(600)\n"
    )
    request(run.layout, "resize", rows=50, columns=200)
    run.wait_for_output("columns=200, lines=50")
    request(run.layout, "stop")
    assert run.wait().exit_code == 128 + signal.SIGINT
    assert list(run.layout.control.iterdir()) == []


def test_size_for_a_script_that_closed_its_terminal_goes_nowhere(run_script: Starter) -> None:
    run = run_script(
        "import os, time\n"
        "for file in (0, 1, 2):\n"
        "    os.close(file)\n"
        "open('closed', 'w').close()\n"
        "while not os.path.exists('go'):\n"
        "    time.sleep(0.01)\n"
        "time.sleep(0.3)\n"
        "os._exit(3)\n"
    )
    run_script.wait_for(lambda: (run_script.directory / "closed").exists(), "the closed terminal")
    time.sleep(0.2)
    request(run.layout, "resize", rows=50, columns=200)
    run_script.wait_for(lambda: not list(run.layout.control.iterdir()), "the requests to be taken")
    (run_script.directory / "go").touch()

    manifest = run.wait()

    assert (manifest.status, manifest.exit_code) == (Status.EXITED, 3)
    assert run.layout.recorder_log.read_text() == ""


def test_request_that_cannot_be_served_is_said_and_harms_nothing(run_script: Starter) -> None:
    run = run_script.sleeping()
    request(run.layout, "resize", rows="many", columns=-3)
    (run.layout.control / "00-damaged.json").write_text("{")
    run_script.wait_for(run.layout.recorder_log.read_text, "a word about it")
    request(run.layout, "stop")
    assert run.wait().exit_code == 128 + signal.SIGINT
    assert "resize" in run.layout.recorder_log.read_text()


@pytest.mark.slow
def test_process_left_behind_keeps_its_terminal(run_script: Starter, tmp_path: Path) -> None:
    run = run_script(
        "import subprocess, sys\n"
        'code = \'import time; time.sleep(1); print(1234); open("proof", "w").write("x")\'\n'
        "subprocess.Popen([sys.executable, '-c', code])\n"
        "print('main is over')\n"
    )
    assert run.wait().exit_code == 0
    recorder = run.manifest.recorder_pid
    run_script.wait_for((tmp_path / "proof").exists, "the process left behind")
    run_script.wait_for(lambda: not Path(f"/proc/{recorder}").exists(), "the end of the recorder")
    assert run.output == "main is over\r\n1234\r\n"


STUCK = """
import subprocess, sys, time
# As if the training had been forked and the manifest not been written.
subprocess.Popen([sys.executable, "-c", sys.argv[1]], start_new_session=True)
time.sleep(2)
open("second", "w").write("started")
time.sleep(600)
"""


def test_an_interrupt_while_it_starts_ends_the_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(_: float) -> None:
        monkeypatch.undo()
        raise KeyboardInterrupt

    monkeypatch.setattr(launch.time, "sleep", interrupted)
    (tmp_path / "train.py").write_text("import time; time.sleep(60)")
    with pytest.raises(KeyboardInterrupt):
        launch.start(Launch((sys.executable, "train.py"), tmp_path, tmp_path / "runs"))
    (root,) = (tmp_path / "runs").iterdir()
    manifest = read_manifest(root / "run.json")
    assert (manifest.status.is_over, manifest.stop_reason) == (True, StopReason.USER)


def test_recorder_that_does_not_answer_starts_nothing_later(
    run_script: Starter, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    child = f"import time; open({str(tmp_path / 'first')!r}, 'w').write('on'); time.sleep(600)"
    stuck = [sys.executable, "-c", STUCK, child]
    monkeypatch.setattr(launch, "our_module", lambda *_: stuck)
    monkeypatch.setattr(launch, "PATIENCE", 1.0)
    run = run_script("print('never')")
    assert run.manifest.status is Status.EXITED
    assert "the recorder did not answer" in str(run.manifest.message)

    def is_left() -> bool:
        commands = [process.info["cmdline"] for process in psutil.process_iter(["cmdline"])]
        return any(str(tmp_path) in " ".join(command or ()) for command in commands)

    run_script.wait_for(lambda: not is_left(), "the end of the recorder and its children")
    assert not (run.root / "second").exists()


def test_recorder_that_answers_at_the_last_moment_goes_on(
    run_script: Starter, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The wait is over at once, the look whether it has started comes much later.
    read = launch.read_manifest
    looks = itertools.count()

    def slow(path: Path) -> Any:
        manifest = read(path)
        if next(looks) == 0:
            run_script.wait_for(lambda: read(path).status is not Status.STARTING, "the start")
        return manifest

    monkeypatch.setattr(launch, "read_manifest", slow)
    monkeypatch.setattr(launch, "PATIENCE", 0.0)
    run = run_script("raise SystemExit(3)")
    assert run.wait().exit_code == 3
    assert run.manifest.message is None
