"""A training that warns, fails or is killed does the same with perftui and without.

One that comes to its end prints the same, too: ``scenarios/test_scenarios.py``."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from perftui.agent.native import IS_COMPILED
from perftui.run.manifest import Status
from perftui.run.reader import RunReader, RunSnapshot
from tests.capture.watched import quick_environment
from tests.core.recorder.conftest import wait_for

PERFTUI = [sys.executable, "-m", "perftui_tui", "--headless"]
WARNER = str(Path(__file__).with_name("warner.py"))

pytestmark = [pytest.mark.subprocess, pytest.mark.slow]


def only_run(directory: Path) -> RunSnapshot:
    (run,) = (directory / ".perftui" / "runs").iterdir()
    return RunReader(run).poll()


def results(command: list[str], cwd: Path) -> tuple[int, bytes, bytes]:
    done = subprocess.run(
        command, cwd=cwd, env=quick_environment(), capture_output=True, stdin=subprocess.DEVNULL
    )
    return done.returncode, done.stdout, done.stderr


FAILURE = """
import sys, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in range(30):
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    if step == 20:
        {ending}
"""


@pytest.mark.parametrize(
    "ending",
    [
        "sys.exit(3)",
        "raise ValueError('bad batch')",
        "sys.exit('out of data')",
        "import os; os._exit(7)",
    ],
)
def test_a_failing_script_fails_the_same_way(ending: str, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(FAILURE.format(ending=ending))
    plain = results([sys.executable, "train.py"], tmp_path)
    assert plain[0] != 0
    assert results([*PERFTUI, "train.py"], tmp_path) == plain
    run = only_run(tmp_path)
    assert run.manifest.status is Status.EXITED
    assert run.manifest.exit_code == plain[0]
    assert len(run.ranks[0].steps) >= 20


ENDLESS = """
import itertools, os, time, torch
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for step in itertools.count():
    model(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()
    time.sleep(0.005)
    if step == 100:
        print(os.getpid(), flush=True)
"""


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_signal_to_the_script_ends_both_the_same_way(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(ENDLESS)
    outcomes = []
    for command in ([sys.executable, "train.py"], [*PERFTUI, "train.py"]):
        process = subprocess.Popen(
            command,
            cwd=tmp_path,
            env=quick_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        pid = int(process.stdout.readline())
        os.kill(pid, number)
        _, errors = process.communicate(timeout=30)
        outcomes.append((process.returncode, errors.splitlines()[-1:]))
    assert outcomes[0] == outcomes[1]
    run = only_run(tmp_path)
    assert run.manifest.exit_code == 128 + number or number is signal.SIGINT
    assert len(run.ranks[0].steps) >= 100


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_to_a_diagnosis_ends_the_training_and_reports_it(
    number: signal.Signals, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(ENDLESS)
    diagnosed = subprocess.Popen(
        [*PERFTUI[:3], "diagnose", "train.py"],
        cwd=tmp_path,
        env=quick_environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    runs = tmp_path / ".perftui" / "runs"
    wait_for(lambda: any(log.read_text() for log in runs.glob("*/output.log")), "output")
    pid = int(next(runs.glob("*/output.log")).read_text())
    diagnosed.send_signal(number)
    report, _ = diagnosed.communicate(timeout=60)
    assert "train.py - stopped" in report
    assert not psutil.pid_exists(pid)


ASKED = """
import torch
torch.manual_seed(0)
torch.set_num_threads(1)
weight = torch.nn.Parameter(torch.randn(4, 64, 64))
optimizer = torch.optim.SGD([weight], lr=0.001)
for step in range(1500):
    optimizer.zero_grad()
    loss = (weight @ torch.randn(64, 4, 64, 1)).square().mean()
    loss.backward()
    optimizer.step()
    if step % 500 == 0:
        print(loss.item())
print(weight.sum().item(), torch.rand(1).item())
"""


def test_what_a_diagnosis_lacks_is_recorded_meanwhile_and_changes_nothing(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(ASKED)
    plain = results([sys.executable, "train.py"], tmp_path)
    diagnosed = [*PERFTUI[:3], "diagnose", "--json", "--overhead", "50%", "train.py"]
    code, out, err = results(diagnosed, tmp_path)
    run = only_run(tmp_path)
    said = err.decode()
    assert said.count("asking: shapes, to tell whether ") == 1
    assert said.count("recorded: shapes\n") == 1
    # Its answer is in what is printed at the end.
    assert (code, "copies, sums, thin products" in out.decode()) == (0, True)
    assert (run.root / "output.log").read_bytes().replace(b"\r\n", b"\n") == plain[1]
    first, *_, last = run.ranks[0].windows
    assert ["Input Dims" in window.read_text() for window in (first, last)] == [False, True]


def written(command: list[str], cwd: Path) -> tuple[int, bytes]:
    """Exit code, and all that is written."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=quick_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


@pytest.mark.skipif(not IS_COMPILED, reason="what is not compiled has frames")
@pytest.mark.parametrize(
    ("how", "fails", "workers"),
    [
        ("always", "nowhere", 0),
        ("default", "item", 1),
        ("default", "item,collate,forward,inner,gradient,optimizer", 0),
    ],
)
def test_warnings_and_tracebacks_are_the_same(
    how: str, fails: str, workers: int, tmp_path: Path
) -> None:
    """Warnings name their caller by the number of frames above: no frame of ours may be between."""
    script = [WARNER, fails, str(workers)]
    plain = written([sys.executable, "-W", how, *script], tmp_path)
    watched = written([*PERFTUI, "--", sys.executable, "-W", how, *script], tmp_path)

    assert plain[0] == (fails != "nowhere")
    assert plain[1].count(b"UserWarning") > 50
    failures = 0 if fails == "nowhere" else fails.count(",") + 1
    assert plain[1].count(b"Traceback (most recent call last)") == failures + workers
    assert watched == plain
