"""Runs are deleted whole, with their trials, and never while they live."""

import os
import shutil
import socket
from collections.abc import Mapping
from pathlib import Path

import psutil
import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.experiments import removal
from perftui.experiments.removal import (
    GOING,
    NotRemovableError,
    Pruning,
    RemovalLimits,
    Stored,
    delete_run,
    disk_bytes,
    leftovers,
    plan,
    remove_leftovers,
    why_kept,
)
from perftui.run.layout import RUNS_DIRECTORY, RunLayout, trials_of
from perftui.run.manifest import Manifest, Status
from perftui.run.reader import RunEntry, list_runs, newest_run
from tests.core.run.test_history import make_run


def test_a_run_that_is_over_goes_whole(tmp_path: Path) -> None:
    root = make_run(tmp_path, "one", status=Status.EXITED)
    (root / "rank-0").mkdir()
    (root / "rank-0" / "steps.jsonl").write_text("x")
    other = make_run(tmp_path, "two", status=Status.KILLED)
    delete_run(root)
    assert [path.name for path in tmp_path.iterdir()] == [other.name]


def test_half_a_deletion_is_not_listed(tmp_path: Path) -> None:
    root = make_run(tmp_path, "one", status=Status.EXITED)
    root.rename(tmp_path / f"{GOING}one")
    assert list_runs(tmp_path) == []


def test_a_run_that_lives_is_kept(tmp_path: Path) -> None:
    root = make_run(
        tmp_path,
        "one",
        status=Status.RUNNING,
        host=socket.gethostname(),
        recorder_pid=os.getpid(),
        recorder_created=psutil.Process().create_time(),
    )
    with pytest.raises(NotRemovableError, match="still runs on"):
        delete_run(root)
    assert root.is_dir()


def test_a_run_whose_recorder_died_can_go(tmp_path: Path) -> None:
    gone = psutil.Popen(["true"])
    gone.wait()
    root = make_run(
        tmp_path, "one", status=Status.RUNNING, host=socket.gethostname(), recorder_pid=gone.pid
    )
    delete_run(root)
    assert not root.exists()


def test_one_of_which_that_cannot_be_told_is_kept(tmp_path: Path) -> None:
    elsewhere = make_run(tmp_path, "one", status=Status.RUNNING, host="elsewhere", recorder_pid=1)
    assert "elsewhere" in why_kept(elsewhere)
    damaged = make_run(tmp_path, "two", status=Status.EXITED)
    RunLayout(damaged).manifest.write_text("{")
    assert "is not known" in why_kept(damaged)
    link = tmp_path / "link"
    link.symlink_to(make_run(tmp_path, "three", status=Status.EXITED))
    assert "link" in why_kept(link)


def test_a_part_that_lives_keeps_the_whole(tmp_path: Path) -> None:
    root = make_run(tmp_path, "one", status=Status.EXITED)
    hosts = RunLayout(root).hosts
    hosts.mkdir()
    make_run(hosts, "node2", status=Status.RUNNING, host="node2", recorder_pid=1)
    assert "node2" in why_kept(root)


def run_with_trial(place: Path, *, run_id: str = "one", **trial: object) -> tuple[Path, Path]:
    """A run in the usual place and a run of a trial of it."""
    root = make_run(place / RUNS_DIRECTORY, run_id, status=Status.EXITED)
    return root, make_run(trials_of(root), "tried", **{"status": Status.EXITED, **trial})


def test_the_trials_of_a_run_go_with_it_and_those_of_others_stay(tmp_path: Path) -> None:
    root, _ = run_with_trial(tmp_path)
    other, kept = run_with_trial(tmp_path, run_id="two")
    (trials_of(root) / "tune.json").write_text("{}")
    delete_run(root)
    assert list(root.parent.iterdir()) == [other]
    assert list(trials_of(root).parent.iterdir()) == [trials_of(other)]
    assert kept.is_dir()


def test_a_trial_that_goes_on_keeps_its_run_even_in_an_unusual_place(tmp_path: Path) -> None:
    root, trial = run_with_trial(tmp_path, status=Status.RUNNING, host="node2", recorder_pid=1)
    with pytest.raises(NotRemovableError, match="its trial tried: it still runs on node2"):
        delete_run(root)
    assert trial.is_dir()
    root = make_run(tmp_path, "one", status=Status.EXITED)
    make_run(trials_of(root), "tried", status=Status.RUNNING, host="node2", recorder_pid=1)
    assert "its trial tried" in why_kept(root)


def test_a_trial_that_still_holds_files_of_the_user_keeps_its_run(tmp_path: Path) -> None:
    root, trial = run_with_trial(tmp_path)
    spared = RunLayout(trial).spared
    spared.mkdir()
    (spared / "journal.jsonl").write_text("{}")
    assert "holds the originals of files" in why_kept(root)
    (spared / "journal.jsonl").rename(spared / "restored.jsonl")
    assert why_kept(root) == ""


def test_trials_that_are_a_link_are_left_alone(tmp_path: Path) -> None:
    root = make_run(tmp_path / RUNS_DIRECTORY, "one", status=Status.EXITED)
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    trials_of(root).parent.mkdir()
    trials_of(root).symlink_to(elsewhere)
    (root / "link").symlink_to(elsewhere)
    delete_run(root)
    assert (elsewhere / "precious").read_text() == "x"
    assert not root.exists()


@pytest.mark.parametrize("removed", range(3))
def test_a_removal_that_is_interrupted_leaves_whole_runs_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, removed: int
) -> None:
    """It ends before the ``removed``-th of: trials set aside, run set aside, trials removed."""
    root, _ = run_with_trial(tmp_path)
    steps = iter(range(10))

    def interrupted(real: object) -> object:
        def step(*arguments: object) -> object:
            if next(steps) == removed:
                raise KeyboardInterrupt
            return real(*arguments)  # type: ignore[operator]

        return step

    monkeypatch.setattr(Path, "rename", interrupted(Path.rename))
    monkeypatch.setattr(shutil, "rmtree", interrupted(shutil.rmtree))
    with pytest.raises(KeyboardInterrupt):
        delete_run(root)
    monkeypatch.undo()
    found = list_runs(root.parent)
    assert [entry.manifest is not None for entry in found] == [True] * (removed < 2)
    assert newest_run(root.parent) == (root if removed < 2 else None)
    assert len(leftovers(root.parent)) == removed
    remove_leftovers(root.parent)
    assert leftovers(root.parent) == []
    assert [entry.root for entry in list_runs(root.parent)] == [root] * (removed < 2)


def test_what_is_left_of_a_run_of_the_same_name_is_in_nobodys_way(tmp_path: Path) -> None:
    root = make_run(tmp_path, "one", status=Status.EXITED)
    left = tmp_path / f"{GOING}one"
    left.mkdir()
    (left / "run.json").write_text("{}")
    delete_run(root)
    assert list(tmp_path.iterdir()) == []


DAY = 86_400
NOW = 1_000 * DAY * 10**9


def days_ago(days: float) -> int:
    return NOW - round(days * DAY * 10**9)


def run(runs: Path, name: str, days: float, kilobytes: int = 0, **changes: object) -> Path:
    """A run that ended ``days`` ago."""
    times = {"started_ns": days_ago(days) - 10**9, "ended_ns": days_ago(days)}
    root = make_run(runs, name, **{"status": Status.EXITED, **times, **changes})
    (root / "output.log").write_bytes(b"x" * 1024 * kilobytes)
    return root


def names(found: Pruning) -> list[str]:
    return [one.entry.run_id for one in found.going]


def test_older_ones_go_and_the_oldest_first(tmp_path: Path) -> None:
    for name, days in (("c", 3), ("a", 40), ("b", 31)):
        run(tmp_path, name, days)
    found = plan(tmp_path, RemovalLimits(older_than_s=30 * DAY), NOW)
    assert names(found) == ["a", "b"]
    assert found.left == 1
    assert found.left_bytes == disk_bytes(tmp_path / "c")
    assert found.freed_bytes == disk_bytes(tmp_path / "a") + disk_bytes(tmp_path / "b")


def test_the_newest_stay(tmp_path: Path) -> None:
    for name, days in (("a", 40), ("b", 31), ("c", 3)):
        run(tmp_path, name, days)
    assert names(plan(tmp_path, RemovalLimits(keep=1), NOW)) == ["a", "b"]
    assert names(plan(tmp_path, RemovalLimits(keep=3), NOW)) == []
    assert names(plan(tmp_path, RemovalLimits(keep=1, older_than_s=35 * DAY), NOW)) == ["a"]


def test_the_oldest_go_until_the_rest_is_small_enough(tmp_path: Path) -> None:
    for name, days in (("a", 40), ("b", 31), ("c", 3)):
        run(tmp_path, name, days, kilobytes=100)
    each = disk_bytes(tmp_path / "a")
    assert names(plan(tmp_path, RemovalLimits(max_bytes=3 * each), NOW)) == []
    assert names(plan(tmp_path, RemovalLimits(max_bytes=3 * each - 1), NOW)) == ["a"]
    assert names(plan(tmp_path, RemovalLimits(max_bytes=each), NOW)) == ["a", "b"]
    assert names(plan(tmp_path, RemovalLimits(max_bytes=0, keep=2), NOW)) == ["a"]
    assert names(plan(tmp_path, RemovalLimits(max_bytes=0, older_than_s=30 * DAY), NOW)) == [
        "a",
        "b",
    ]


def test_trials_count_to_the_size_of_their_run(tmp_path: Path) -> None:
    root = run(tmp_path / RUNS_DIRECTORY, "a", 40)
    alone = plan(root.parent, RemovalLimits(keep=1), NOW).left_bytes
    run(trials_of(root), "tried", 40, kilobytes=500)
    assert plan(root.parent, RemovalLimits(keep=1), NOW).left_bytes >= alone + 500 * 1024


def test_what_lives_or_cannot_be_read_stays_with_the_reason(tmp_path: Path) -> None:
    run(tmp_path, "a", 50, status=Status.RUNNING, host="node2", recorder_pid=1, ended_ns=None)
    (run(tmp_path, "20200101-000000-b", 40) / "run.json").write_text("{")
    (tmp_path / "my-notes").mkdir()
    (tmp_path / "link").symlink_to(run(tmp_path.with_name("elsewhere"), "c", 90))
    run(tmp_path, "d", 30)
    found = plan(tmp_path, RemovalLimits(max_bytes=0), NOW)
    assert names(found) == ["d"]
    reasons = {one.entry.run_id: why for one, why in found.staying}
    assert set(reasons) == {"a", "20200101-000000-b"}
    assert "still runs on node2" in reasons["a"]
    assert "is not known" in reasons["20200101-000000-b"]
    assert found.left == 2


def test_a_run_without_an_end_is_as_old_as_what_it_wrote_last(tmp_path: Path) -> None:
    root = run(tmp_path, "a", 900, ended_ns=None, status=Status.LOST)
    written = max(path.stat().st_mtime_ns for path in (root, *root.iterdir()))
    limits = RemovalLimits(older_than_s=DAY)
    assert names(plan(tmp_path, limits, written + DAY * 10**9)) == []
    assert names(plan(tmp_path, limits, written + DAY * 10**9 + 10**9)) == ["a"]


def test_what_a_kept_run_repeats_stays(tmp_path: Path) -> None:
    run(tmp_path, "a", 40)
    run(tmp_path, "b", 35, parent="a")
    run(tmp_path, "c", 1, parent="b")
    found = plan(tmp_path, RemovalLimits(older_than_s=30 * DAY), NOW)
    assert names(found) == ["a"]
    [(kept, why)] = found.staying
    assert (kept.entry.run_id, why) == ("b", "c repeats it and is compared with it")


def test_a_directory_that_is_not_there_holds_nothing(tmp_path: Path) -> None:
    assert plan(tmp_path / "none", RemovalLimits(keep=1), NOW) == Pruning((), (), 0, 0)


def slow_plan(stored: list[Stored], limits: RemovalLimits, blocked: Mapping[str, str]) -> set[str]:
    """Grow the oldest that may go by one until all limits are met."""
    beyond = [
        one
        for at, one in enumerate(stored)
        if at >= (limits.keep or 0)
        and (limits.older_than_s is None or NOW - one.ended_ns > limits.older_than_s * 1e9)
    ]
    going: set[str] = set()
    for count in range(len(beyond) + 1):
        oldest = {one.entry.run_id for one in beyond[len(beyond) - count :]} - set(blocked)
        stay = [one for one in stored if one.entry.run_id not in oldest]
        going = oldest - {one.parent for one in stay}
        left = sum(one.bytes for one in stored if one.entry.run_id not in going)
        if limits.max_bytes is not None and left <= limits.max_bytes:
            break
    return going


MAYBE_PARENT = st.none() | st.integers(0, 9).map(str)
RUNS = st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9), MAYBE_PARENT, st.booleans()))
LIMITS = st.builds(
    RemovalLimits,
    st.none() | st.integers(0, 50).map(lambda days: days * DAY),
    st.none() | st.integers(1, 9),
    st.none() | st.integers(0, 60),
)


@given(RUNS, LIMITS)
def test_any_runs_go_as_an_obvious_search_finds(made, limits) -> None:
    made = sorted(made, key=lambda one: one[0])[:10]
    stored, blocked = [], {}
    for at, (days, size, parent, alive) in enumerate(made):
        manifest = Manifest(str(at), ("python", "t.py"), "/", days_ago(days), "h", parent=parent)
        stored.append(Stored(RunEntry(Path(str(at)), manifest), size, days_ago(days)))
        if alive:
            blocked[str(at)] = "it lives"
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(removal, "list_runs", lambda _: [one.entry for one in stored])
        patch.setattr(removal, "is_run_directory", lambda _: True)
        patch.setattr(removal, "_stored", lambda entry: stored[int(entry.run_id)])
        patch.setattr(removal, "why_kept", lambda root: blocked.get(root.name, ""))
        found = plan(Path("runs"), limits, NOW)
    assert set(names(found)) == slow_plan(stored, limits, blocked)
    assert not set(names(found)) & blocked.keys()
    assert found.freed_bytes + found.left_bytes == sum(one.bytes for one in stored)
    assert found.left + len(found.going) == len(stored)
