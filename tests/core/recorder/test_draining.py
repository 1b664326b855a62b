"""From the spool into the run directory, with a stand-in for the agent."""

import json
import os
import shutil
import signal
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from perftui.facts.fact import Facts
from perftui.facts.notes import notes, problems
from perftui.run.columns import PHASES
from perftui.run.control import request
from perftui.run.reader import RankSnapshot, RunReader, RunSnapshot
from tests.core.recorder.conftest import Starter

AGENT_FILE = Path(__file__).with_name("fake_agent.py")
AGENT = AGENT_FILE.read_text()

CHILDREN = """
import os, subprocess, sys
children = [
    subprocess.Popen([sys.executable, sys.argv[1], "3", "0.6"], env={**os.environ, "RANK": rank,
        "WORLD_SIZE": sys.argv[2]})
    for rank in sys.argv[3:]
]
print([child.wait() for child in children])
"""

pytestmark = pytest.mark.subprocess


def _finished(run: Any) -> RunSnapshot:
    run.wait()
    return RunReader(run.root).poll()


def _warnings(rank: RankSnapshot) -> list[str]:
    return [data["message"] for data in rank.events["data"][rank.events["kind"] == "warning"]]


def test_everything_the_agent_says_arrives(run_script: Starter) -> None:
    snapshot = _finished(run_script(AGENT, "500", "0.001"))
    manifest, rank = snapshot.manifest, snapshot.rank(0)
    assert rank.steps["index"].tolist() == list(range(500))
    assert set(rank.steps["duration"].tolist()) == {1000}
    row = [int(rank.steps[phase][7]) for phase in PHASES]
    assert row == [100, 0, 300, 400, 150, 0, 50]
    assert set(rank.steps["batches_ready"].tolist()) == {2}
    assert manifest.ended_ns is not None
    assert (rank.steps["start"] > manifest.started_ns).all()
    assert (rank.steps["start"] < manifest.ended_ns).all()
    kinds = rank.events["kind"].tolist()
    assert (kinds.count("gc"), kinds.count("process"), snapshot.skipped_lines) == (50, 1, 0)

    assert (manifest.python_version, manifest.torch_version) == ("3.9.1", "9.9.9")
    assert manifest.gpus == ("FAKE 100",)
    (window,) = rank.windows
    assert window.name == "3.pt.trace.json"
    assert json.loads(window.read_text()) == {"traceEvents": []}
    assert window.stat().st_mode & 0o777 == 0o600
    (data,) = rank.events["data"][rank.events["kind"] == "window"]
    assert (data["file"], data["stall"]) == ("windows/3.pt.trace.json", 5)


def test_steps_arrive_while_the_training_runs(run_script: Starter) -> None:
    run = run_script(AGENT, "100000", "0.01")
    reader = RunReader(run.root)

    def has_steps() -> bool:
        rank = reader.poll().rank(0)
        return rank is not None and len(rank.steps) > 3

    run_script.wait_for(has_steps, "steps in the journal")
    assert not run.manifest.status.is_over


def test_killed_training_leaves_what_it_had_written(run_script: Starter) -> None:
    run = run_script(AGENT + "\nos.kill(PID, 9)\n", "40")
    snapshot = _finished(run)
    rank = snapshot.rank(0)
    assert snapshot.manifest.exit_code == 137
    assert len(rank.steps) == 40


AFTER_ONE_ANOTHER = """
import subprocess, sys
for steps in sys.argv[2:]:
    subprocess.run([sys.executable, sys.argv[1], steps, "0.01"], check=True)
"""


@pytest.mark.slow
def test_trainings_one_after_the_other_are_no_ranks_of_one_job(run_script: Starter) -> None:
    run = run_script(AFTER_ONE_ANOTHER, str(AGENT_FILE), "40", "50", "60")
    snapshot = _finished(run)
    assert [len(rank.steps) for rank in snapshot.trainings()] == [40, 50, 60]
    assert {rank.place for rank in snapshot.ranks} == {0}
    assert snapshot.world == 1
    newest = snapshot.rank()
    assert len(newest.steps) == 60
    assert problems(snapshot) == ()
    facts = Facts(snapshot, None)
    assert facts.run.world == 1
    assert "3 trainings ran one after the other: the diagnosis covers number 3" in notes(facts)


@pytest.mark.slow
def test_process_that_replaces_itself_goes_on_in_its_rank(run_script: Starter) -> None:
    again = "\nif len(sys.argv) < 4:\n    time.sleep(1)\n    "
    again += "os.execv(sys.executable, [sys.executable, sys.argv[0], '7', '0', 'again'])\n"
    snapshot = _finished(run_script(AGENT + again, "5", "0"))
    (rank,) = snapshot.ranks
    assert rank.steps["index"].tolist() == [*range(5), *range(7)]
    assert (rank.steps["start"][1:] > rank.steps["start"][:-1]).all()
    (warning,) = _warnings(rank)
    assert "exec" in warning


@pytest.mark.slow
@pytest.mark.parametrize(
    ("ranks", "warned"), [(("0", "1"), []), (("0", "0"), ["rank 0"])], ids=["ranks", "one rank"]
)
def test_each_process_of_a_launcher_has_its_own_journals(
    run_script: Starter, ranks: tuple[str, str], warned: list[str]
) -> None:
    snapshot = _finished(run_script(CHILDREN, str(AGENT_FILE), str(len(set(ranks))), *ranks))
    assert [rank.rank for rank in snapshot.ranks] == [0, 1]
    assert [len(rank.steps) for rank in snapshot.ranks] == [3, 3]
    said = [_warnings(rank) for rank in snapshot.ranks]
    assert said[0] == []
    assert [word in said[1][0] for word in warned] == [True] * len(said[1])


@pytest.mark.slow
def test_capture_requests_are_counted_for_the_agent(run_script: Starter) -> None:
    waits = "while not os.path.exists('go'):\n    time.sleep(0.01)\n"
    script = "import os, time\nprint('on', flush=True)\n" + waits + CHILDREN
    run = run_script(script, str(AGENT_FILE), "1", "0")
    run.wait_for_output("on")
    request(run.layout, "capture")
    request(run.layout, "capture")
    run_script.wait_for(lambda: not list(run.layout.control.iterdir()), "the requests to be served")
    (run_script.directory / "go").touch()
    run.wait()
    assert "captures 2" in run.output


def test_notes_of_a_process_that_never_trains_are_kept(run_script: Starter) -> None:
    source = AGENT.replace(
        "\nmain()\n", "\nNotes(SPOOL.root).write('warning', {'message': 'torch is too old'})\n"
    )
    rank = _finished(run_script(source)).rank(0)
    assert len(rank.steps) == 0
    assert rank.events["data"].tolist() == [{"message": "torch is too old"}]


def test_spool_is_removed_and_those_of_dead_recorders_too(run_script: Starter) -> None:
    run = run_script("import os; print(os.environ['PERFTUI_SPOOL'], flush=True); input()")
    run.wait_for_output("perftui-")
    spool = Path(run.output.split()[0])
    assert run.manifest.recorder_pid is not None
    os.kill(run.manifest.recorder_pid, 9)
    run_script.wait_for(lambda: run_script("").wait() and not spool.exists(), "the sweep")
    shutil.rmtree(run.root)


@pytest.mark.slow
def test_run_directory_that_is_removed_meanwhile_stays_removed(
    run_script: Starter, tmp_path: Path
) -> None:
    run = run_script(AGENT + "Path('proof').write_text('done')\n", "40", "0.05")
    recorder = run.manifest.recorder_pid
    run_script.wait_for((run.root / "rank-0" / "steps.jsonl").exists, "the first steps")

    def is_removed() -> bool:
        shutil.rmtree(run.root, ignore_errors=True)
        return not run.root.exists()

    run_script.wait_for(is_removed, "the directory to go")
    run_script.wait_for((tmp_path / "proof").exists, "the end of the script")
    run_script.wait_for(lambda: not Path(f"/proc/{recorder}").exists(), "the end of the recorder")
    assert not run.root.exists()


def test_processes_that_can_write_nothing_are_counted(run_script: Starter) -> None:
    count = "import os\nwith open(os.environ['PERFTUI_SPOOL'] + '/control', 'r+b') as page:\n"
    count += "    page.seek(32)\n    page.write((2).to_bytes(8, 'little'))\n"
    snapshot = _finished(run_script(count))
    (note,) = snapshot.manifest.notes
    assert note.endswith("not recorded; processes affected: 2")
    assert problems(snapshot) == (note,)


DAEMON = """
import multiprocessing.resource_tracker, os, pathlib, subprocess, sys
multiprocessing.resource_tracker.ensure_running()
subprocess.run([sys.executable, "-c", "pass"])
ours, theirs = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(theirs, str(os.getpid()).encode())
        for descriptor in range(theirs + 1):
            os.close(descriptor)
        while True:
            __import__("time").sleep(600)
    os._exit(0)
os.wait()
pathlib.Path("daemon").write_bytes(os.read(ours, 9))
end = sys.argv[1]
if end == "killed":
    os.kill(os.getpid(), 9)
if end == "alone":
    os.kill(int(pathlib.Path("daemon").read_text()), 9)
"""


@pytest.mark.parametrize("end", ["left", "killed", "alone"])
def test_a_daemon_that_outlives_the_command_is_said_to_live_on(
    run_script: Starter, tmp_path: Path, end: str
) -> None:
    snapshot = _finished(run_script(DAEMON, end))
    pid = int((tmp_path / "daemon").read_text())
    try:
        said = problems(snapshot)
        if end != "left":
            assert said == ()
            return
        assert psutil.pid_exists(pid), "a recording never ends what it does not record"
        (line,) = said
        assert line.startswith(f"process {pid} (")
        assert line.endswith("is still running after the command ended; it is no longer recorded")
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


LEFT_BEHIND = """
import pathlib, os, subprocess, sys, time
subprocess.Popen([sys.executable, sys.argv[1], "600", "0.1"])
while not list(pathlib.Path(os.environ["PERFTUI_SPOOL"]).glob("ring-*")):
    time.sleep(0.01)
"""


def test_a_training_that_outlives_the_command_is_said_to_go_on(run_script: Starter) -> None:
    snapshot = _finished(run_script(LEFT_BEHIND, str(AGENT_FILE)))
    try:
        (said,) = problems(snapshot)
        assert "kept running after the command ended" in said
    finally:
        # It goes on for a minute: longer than a busy machine takes to end the recording.
        (rank,) = snapshot.ranks
        events = zip(rank.events["kind"], rank.events["data"], strict=True)
        os.kill(next(data["pid"] for kind, data in events if kind == "process"), signal.SIGKILL)
