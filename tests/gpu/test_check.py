"""The checks for a machine with a GPU, against one that is played: what is wrong is seen."""

import contextlib
import json
import os
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.gpu import check
from tests.gpu.checks import measured, planted, same_results, surroundings
from tests.gpu.checks.machine import Ended, Machine, Row, State
from tests.gpu.checks.played import PlayedMachine
from tests.verify.scenarios.recordings import recordings

CASE = planted.CASES[0]
Change = Callable[[dict[str, Any]], object]


def answers(action: str, change: Change) -> Callable[[tuple[str, ...], Ended], Ended]:
    """Changes the JSON that a command of perftui's prints."""

    def alter(words: tuple[str, ...], ended: Ended) -> Ended:
        if action not in words:
            return ended
        told = json.loads(ended.out)
        change(told)
        return Ended(words, ended.code, json.dumps(told), ended.err)

    return alter


def wrong(rows: Iterator[Row]) -> list[str]:
    """The text of what is wrong."""
    return [row.text for row in rows if row.state is State.WRONG]


@pytest.fixture(scope="module")
def whole(
    tmp_path_factory: pytest.TempPathFactory,
) -> tuple[subprocess.CompletedProcess[str], Path]:
    """The list on the played machine, as it is started."""
    out = tmp_path_factory.mktemp("gpu-check")
    command = (sys.executable, "-m", "tests.gpu.check", "--played", "--out", str(out))
    done = subprocess.run(command, cwd=check.ROOT, capture_output=True, text=True, check=False)
    return done, out


@pytest.mark.subprocess
def test_a_machine_without_a_fault_passes_in_every_group(
    whole: tuple[subprocess.CompletedProcess[str], Path],
) -> None:
    done, out = whole
    # How much hooks add depends on what else the cores do here.
    rows = json.loads((out / "results.json").read_text())["rows"]
    states = {row["state"] for row in rows if "steps" not in row["name"]}
    assert states == {"ok"}, done.stdout + done.stderr
    assert {row["group"] for row in rows} == {1, 2, 3, 4, 5, 6}
    assert (out / "table.txt").read_text() == done.stdout
    for row in rows:
        assert f" {row['name']} " in done.stdout
    files = list(out.rglob("*"))
    assert len(files) <= 8
    assert max(file.stat().st_size for file in files) <= 16_000_000


@pytest.mark.subprocess
def test_what_was_recorded_opens_elsewhere(
    whole: tuple[subprocess.CompletedProcess[str], Path], tmp_path: Path
) -> None:
    for archive in whole[1].glob("recordings-*.tar"):
        with tarfile.open(archive) as tar:
            tar.extractall(tmp_path / "collection", filter="data")
    found = dict(recordings(tmp_path / "collection", tmp_path / "unpacked"))
    names = {expected.name for expected in found}
    assert names >= {
        f"gpu/{case.name}/{form}" for case in planted.CASES for form in ("planted", "fixed")
    }
    assert all((root / "run.json").exists() for root in found.values())
    by_name = {expected.name: expected for expected in found}
    place = by_name[f"gpu/{CASE.name}/planted"].planted
    known = CASE.training().expected.planted
    assert place.lines <= known.lines


LOOPS = "".join(f"{name} 1 {'a' * 16}\n" for name in same_results.LOOPS)


@pytest.mark.parametrize(
    ("ours", "said"),
    [
        (
            Ended((), 7, LOOPS.replace("GAN", "").replace("a\nadv", "b\nadv"), ""),
            "with perftui aaa",
        ),
        (Ended((), 0, LOOPS, ""), "exit codes 7 and 0"),
        (Ended((), 7, LOOPS + "step 3 loss 0.1\n", ""), "with perftui: step 3"),
        (Ended((), 7, LOOPS, "a warning\n"), "with perftui: a warning"),
        (Ended((), 7, LOOPS.partition("\n")[2], ""), "with perftui did not end"),
    ],
    ids=["weights", "exit code", "output", "errors", "a loop is missing"],
)
def test_other_results_are_seen(ours: Ended, said: str) -> None:
    alone = Ended((), 7, LOOPS, "")
    assert wrong(same_results.judge(alone, alone, alone)) == []
    (text,) = wrong(same_results.judge(alone, alone, ours))
    assert said in text


def test_loops_that_fail_or_differ_by_themselves_are_no_proof() -> None:
    failed = Ended((), 1, "adversarial 1 failed: 1\n", "no memory")
    assert len(wrong(same_results.judge(failed, failed, failed))) == len(same_results.LOOPS) + 1
    alone, again = (Ended((), 7, LOOPS.replace("a\ninf", f"{end}\ninf"), "") for end in "bc")
    states = [row.state for row in same_results.judge(alone, again, again)]
    assert states.count(State.UNKNOWN) == 1


def test_hooks_that_take_more_than_their_limit_are_seen() -> None:
    def pairs(added: float) -> list[tuple[float, float, float]]:
        return [(1000.0, 1000.0 + added + at % 3, 1000.0) for at in range(20)]

    assert measured.judge_hooks("tiny", pairs(30), 4.0).state is State.OK
    assert measured.judge_hooks("tiny", pairs(60), 4.0).state is State.WRONG
    assert measured.judge_hooks("tiny", pairs(30)[:5], 4.0).state is State.UNKNOWN


def slow_window(told: dict[str, Any]) -> None:
    told["recording"]["windows"][0]["stall"] = 400_000_000


def dear_hooks(told: dict[str, Any]) -> None:
    told["recording"]["cost"]["hooks"] = told["recording"]["cost"]["whole"] // 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"), [(slow_window, "stall 400 ms"), (dear_hooks, "hooks 2.00%")]
)
def test_a_run_that_is_held_up_is_seen(change: Change, said: str, tmp_path: Path) -> None:
    spoiled = PlayedMachine(tmp_path, alter=answers("report", change))
    (text,) = wrong(measured.whole_run("busy", "--shapes", spoiled))
    assert said in text


def another_rule(told: dict[str, Any]) -> None:
    told["findings"].insert(0, {**told["findings"][0], "rule": "python-bound"})


def silent(told: dict[str, Any]) -> None:
    told["findings"] = []


def another_line(told: dict[str, Any]) -> None:
    told["findings"][0]["place"]["line"] += 50


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (another_rule, "input-in-main-thread is finding 2, behind python-bound"),
        (silent, "input-in-main-thread is not found; first: nothing"),
        (another_line, "(wrong)"),
    ],
)
def test_a_wrong_diagnosis_is_seen(change: Change, said: str, tmp_path: Path) -> None:
    (text,) = wrong(
        planted.is_named(CASE, PlayedMachine(tmp_path, alter=answers("report", change)))
    )
    assert said in text


@pytest.mark.slow
def test_an_accused_training_without_the_cause_is_seen(tmp_path: Path) -> None:
    def accuse(told: dict[str, Any]) -> None:
        told["findings"] = [
            {
                "rule": "input-in-main-thread",
                "severity": "warning",
                "place": None,
                "cost_ns": 1,
                "share": 0.1,
            }
        ]

    machine = PlayedMachine(tmp_path, alter=answers("report", accuse))
    (text,) = wrong(planted.is_left_alone(CASE, machine))
    assert text.startswith("accused of input-in-main-thread; 2.00x by hand")


def no_gain(told: dict[str, Any]) -> None:
    told["ratio"] = 1.01


@pytest.mark.slow
def test_a_fix_without_its_gain_is_seen(tmp_path: Path) -> None:
    machine = PlayedMachine(tmp_path, alter=answers("compare", no_gain))
    (text,) = wrong(planted.is_mended(CASE, machine))
    assert text.startswith("1.01x, by hand 2.00x")


def test_a_source_that_is_not_restored_is_seen(tmp_path: Path) -> None:
    def spoil(words: tuple[str, ...], ended: Ended) -> Ended:
        if "undo" in words:
            with (tmp_path / "trainings" / f"{CASE.name}.py").open("a") as script:
                script.write(" ")
        return ended

    (text,) = wrong(planted.is_mended(CASE, PlayedMachine(tmp_path, alter=spoil)))
    assert text.startswith("undo did not restore")


@pytest.mark.slow
def test_a_trial_without_its_gain_is_seen(tmp_path: Path) -> None:
    def slower(words: tuple[str, ...], ended: Ended) -> Ended:
        err = ended.err.replace("2.00x", "1.02x") if "try" in words else ended.err
        return Ended(words, ended.code, ended.out, err)

    (text,) = wrong(planted.is_proven(CASE, PlayedMachine(tmp_path, alter=slower)))
    assert text.startswith("1.02x, by hand 2.00x")


def idle_window(told: dict[str, Any]) -> None:
    for breakdown in told["step_breakdowns"]:
        if breakdown["source"] == "trace":
            breakdown["parts_ns"]["gpu compute"] //= 4


def busy_window(told: dict[str, Any]) -> None:
    for breakdown in told["step_breakdowns"]:
        if breakdown["source"] == "trace":
            breakdown["parts_ns"]["gpu compute"] = breakdown["step_ns"]


def no_events(told: dict[str, Any]) -> None:
    rows = told["steps"]["rows"]
    rows["device_forward"] = [-1] * len(rows["index"])


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "said"),
    [
        (idle_window, "NVML does not agree"),
        (busy_window, "more than the events allow"),
        (no_events, "nothing by events"),
    ],
)
def test_readings_that_contradict_each_other_are_seen(
    change: Change, said: str, tmp_path: Path
) -> None:
    texts = wrong(measured.readings(PlayedMachine(tmp_path, alter=answers("report", change))))
    assert any(said in text for text in texts)


@pytest.mark.slow
def test_other_counters_than_those_of_nvidia_smi_are_seen(tmp_path: Path) -> None:
    def twice(words: tuple[str, ...], ended: Ended) -> Ended:
        if words[0] != "nvidia-smi":
            return ended
        lines = (line.split(", ") for line in ended.out.splitlines())
        doubled = (", ".join((*at[:2], str(2 * float(at[2])), *at[3:])) for at in lines)
        return Ended(words, 0, "\n".join(doubled), "")

    rows = list(surroundings.telemetry(PlayedMachine(tmp_path, alter=twice)))
    assert [row.state for row in rows] == [State.OK, State.WRONG]
    assert "memory.used 5183, 10366 (!)" in rows[1].text


def no_snapshot(told: dict[str, Any]) -> None:
    told["recording"]["snapshots"] = []


def no_cuda(told: dict[str, Any]) -> None:
    told["rows"][0]["found"] = "2.11.0+cpu, for the CPU"


def no_counters(told: dict[str, Any]) -> None:
    del told["rows"][-1]


def too_fast(told: dict[str, Any]) -> None:
    told["rates"][0]["value"] *= 3


@pytest.mark.parametrize(
    ("check_of", "action", "change", "said"),
    [
        (surroundings.telemetry, "report", no_snapshot, "0 snapshots"),
        (surroundings.doctor, "doctor", no_cuda, "not ok: torch"),
        (surroundings.doctor, "doctor", no_counters, "GPU counters: no row"),
        (surroundings.probe, "probe", too_fast, "device memory 8700 of 3350"),
    ],
)
def test_a_wrong_reading_of_the_machine_is_seen(
    check_of: Callable[[Machine], Iterator[Row]],
    action: str,
    change: Change,
    said: str,
    tmp_path: Path,
) -> None:
    (text,) = wrong(check_of(PlayedMachine(tmp_path, alter=answers(action, change))))
    assert said in text


def test_ranges_that_nsight_compute_does_not_see_are_seen() -> None:
    assert surroundings.judge_nvtx(0, "==PROF== no kernels\n", "no kernels").state is State.WRONG
    page = '"ID","Range"\n"",""\n"0","perftui::forward"\n'
    assert "0 kernels of perftui::optimizer" in surroundings.judge_nvtx(0, page, "").text


def a_check(rows: Callable[[Machine], Iterator[Row]], tmp_path: Path, limit: float) -> list[Row]:
    (tmp_path / "log.txt").touch()
    one = check.Check(1, "one", limit / check.PATIENCE, rows)
    found = check.run_checks([one], Machine(tmp_path), tmp_path / "log.txt", float("inf"))
    return [row for _, row, _ in found]


@pytest.mark.slow
def test_a_check_that_takes_too_long_is_ended_with_what_it_started(tmp_path: Path) -> None:
    def rows(machine: Machine) -> Iterator[Row]:
        yield Row("first", State.OK, "")
        words = ("import os, time; open('pid', 'w').write(str(os.getpid())); time.sleep(60)",)
        machine.run(sys.executable, "-c", *words)
        yield Row("second", State.OK, "")

    found = a_check(rows, tmp_path, 2.0)
    assert [(row.name, row.state) for row in found] == [("first", State.OK), ("one", State.FAILED)]
    assert found[1].text == "stopped after 2 s"
    with contextlib.suppress(psutil.NoSuchProcess):
        # Nobody may be there to reap it.
        left = psutil.Process(int((tmp_path / "pid").read_text()))
        assert left.status() == psutil.STATUS_ZOMBIE


def test_overlapping_checks_run_side_by_side_and_others_alone(tmp_path: Path) -> None:
    def rows(_: Machine) -> Iterator[Row]:
        begun = time.monotonic()
        time.sleep(0.3)
        yield Row("", State.OK, "", {"from": begun, "to": time.monotonic()})

    def name(at: int) -> str:
        return "alone" if at == 4 else "beside"

    listed = [check.Check(1, name(at), 1, rows, at != 4) for at in range(8)]
    found = check.run_checks(listed, Machine(tmp_path), tmp_path / "log.txt", float("inf"))
    spans = [(one.name, row.values["from"], row.values["to"]) for one, row, _ in found]
    most = 0
    for kind, begun, ended in spans:
        beside = [other for other in spans if other[1] < ended and other[2] > begun]
        most = max(most, len(beside))
        assert kind == "beside" or len(beside) == 1
    assert 1 < most <= check.AT_ONCE + 2


def test_trainings_that_start_side_by_side_train_one_after_the_other(tmp_path: Path) -> None:
    (tmp_path / "torch.py").write_text(
        "class cuda:\n    is_available = staticmethod(lambda: False)\n"
    )
    source = (
        "import time\nimport torch\nbegun = time.monotonic()\ntime.sleep(0.2)\n"
        "print(begun, time.monotonic())\n"
    )
    machine = Machine(tmp_path)
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    processes = [
        subprocess.Popen(
            (sys.executable, machine.script(f"{name}.py", source)), env=env, stdout=subprocess.PIPE
        )
        for name in "abc"
    ]
    spans = sorted(tuple(map(float, one.communicate()[0].split())) for one in processes)
    assert all(ended <= begun for (_, ended), (begun, _) in pairwise(spans))


def test_a_check_that_breaks_and_a_command_that_fails_are_told(tmp_path: Path) -> None:
    def breaks(_: Machine) -> Iterator[Row]:
        yield from ()
        raise RuntimeError("broken")

    def fails(machine: Machine) -> Iterator[Row]:
        machine.perftui("report", "nothing-there").checked()
        yield from ()

    (row,) = a_check(breaks, tmp_path, 30)
    assert (row.state, row.text) == (State.FAILED, "exit code 1: RuntimeError: broken")
    (row,) = a_check(fails, tmp_path, 30)
    assert row.state is State.FAILED
    assert row.text.startswith("perftui_tui report nothing-there: exit code 2: perftui: ")


@pytest.mark.slow
def test_a_training_that_does_not_end_is_stopped_and_its_run_kept(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text("import time\ntime.sleep(60)\n")
    root = Machine(tmp_path).record("endless", script, seconds=12)
    assert json.loads((root / "run.json").read_text())["exit_code"] == 130


def test_what_does_not_fit_into_the_time_is_named(tmp_path: Path) -> None:
    given = check.options(["--minutes", "0.5", "--only", "planted", "--out", str(tmp_path)])
    assert check.run_all(given, {}, time.monotonic()) == 0
    lines = (tmp_path / "table.txt").read_text().splitlines()
    assert sum(line.startswith("not done") for line in lines) == len(planted.CASES)
    assert lines[-2] == f"0 ok, 0 wrong, 0 unknown, 0 failed, {len(planted.CASES)} not done"


@pytest.mark.slow
def test_it_says_what_is_missing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(check.NothingToCheckError, match=r"cannot be installed from .*perftui"):
        check.prepare(tmp_path)
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nexec {sys.executable} -S "$@"\n')
    python.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(python))
    with pytest.raises(check.NothingToCheckError, match=r"has no PyTorch \(ModuleNotFoundError"):
        check.torch_facts()
    monkeypatch.setitem(os.environ, "PYTHONPATH", os.environ.get("PYTHONPATH", ""))
    with pytest.raises(check.NothingToCheckError, match="make gpu-check WHEELS=DIR"):
        check.prepare(None)


@pytest.mark.slow
@pytest.mark.subprocess
def test_one_that_is_ended_keeps_what_was_done(tmp_path: Path) -> None:
    command = (sys.executable, "-m", "tests.gpu.check", "--played", "--out", str(tmp_path))
    process = subprocess.Popen(command, cwd=check.ROOT, stdout=subprocess.PIPE, text=True)
    for line in process.stdout:
        if line.startswith("ok "):
            break
    process.terminate()
    assert "interrupted; what was done is kept" in process.communicate()[0]
    assert json.loads((tmp_path / "results.json").read_text())["rows"][0]["state"] == "ok"


@pytest.mark.subprocess
def test_a_machine_without_a_gpu_is_told_so() -> None:
    env = {**os.environ, "CUDA_VISIBLE_DEVICES": ""}
    command = (sys.executable, "-m", "tests.gpu.check")
    done = subprocess.run(
        command, cwd=check.ROOT, env=env, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "sees no GPU here. `--played` runs the same list" in done.stderr
