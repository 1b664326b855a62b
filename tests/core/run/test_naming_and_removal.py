"""Runs get names, and are deleted, never while they live."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import psutil
import pytest

from perftui.run.history import GOING, NotRemovableError, delete_run, list_runs, why_kept
from perftui.run.layout import RunLayout
from perftui.run.manifest import LONGEST, Status, read_manifest, rename_run
from perftui.run.reader import RunReader
from tests.core.run.test_history import make_run


def test_a_name_is_kept_and_taken_away(tmp_path: Path) -> None:
    root = make_run(tmp_path, "one", name="the fix that was tried")
    rename_run(root, "  more \n workers ")
    assert RunReader(root).poll().manifest.name == "more workers"
    [entry] = list_runs(tmp_path)
    assert entry.manifest is not None
    assert entry.manifest.name == "more workers"
    # The recorder writes the manifest again while the run lives.
    assert read_manifest(RunLayout(root).manifest).name == "the fix that was tried"
    rename_run(root, "")
    assert RunReader(root).poll().manifest.name == "the fix that was tried"
    rename_run(root, "")


def test_a_long_name_is_cut_and_a_damaged_one_read(tmp_path: Path) -> None:
    root = make_run(tmp_path, "one")
    rename_run(root, "ä" * 200)
    assert RunReader(root).poll().manifest.name == "ä" * LONGEST
    RunLayout(root).name.write_bytes(b"\xff\xfe name")
    assert (RunReader(root).poll().manifest.name or "").endswith("name")


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
