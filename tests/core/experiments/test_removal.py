"""Runs are deleted whole, with their trials, and never while they live."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path

import psutil
import pytest

from perftui.experiments.removal import (
    GOING,
    NotRemovableError,
    delete_run,
    leftovers,
    remove_leftovers,
    why_kept,
)
from perftui.run.history import list_runs, newest_run
from perftui.run.layout import RUNS_DIRECTORY, RunLayout, trials_of
from perftui.run.manifest import Status
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


def test_a_trial_that_goes_on_keeps_its_run(tmp_path: Path) -> None:
    root, trial = run_with_trial(tmp_path, status=Status.RUNNING, host="node2", recorder_pid=1)
    with pytest.raises(NotRemovableError, match="its trial tried: it still runs on node2"):
        delete_run(root)
    assert trial.is_dir()


def test_so_does_one_inside_a_run_of_an_unusual_place(tmp_path: Path) -> None:
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
