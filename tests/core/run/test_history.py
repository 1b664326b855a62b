"""The runs that a directory holds, and what they are called."""

import os
import socket
import time
from pathlib import Path

import psutil
import pytest

from perftui.run import manifest as manifests
from perftui.run.layout import RunLayout, create_run_directory
from perftui.run.manifest import (
    LONGEST,
    SCHEMA,
    Manifest,
    ManifestError,
    Override,
    Status,
    read_manifest,
    recorded_by_this_process,
    rename_run,
    run_state,
    with_liveness,
    write_manifest,
)
from perftui.run.reader import RunNotFoundError, RunReader, find_run, list_runs


def manifest(run_id: str, **changes: object) -> Manifest:
    fields = {"command": ("python", "t.py"), "cwd": "/w", "started_ns": 5, "host": "h", **changes}
    return Manifest(run_id=run_id, **fields)  # type: ignore[arg-type]


def make_run(runs: Path, run_id: str, **changes: object) -> Path:
    layout = create_run_directory(runs, run_id)
    write_manifest(layout.manifest, manifest(run_id, **changes))
    return layout.root


def at(day: str) -> int:
    """Noon of that day here, in ns."""
    return int(time.mktime(time.strptime(day + "12", "%Y%m%d%H"))) * 1_000_000_000


def test_newest_first_and_damaged_ones_with_the_reason(tmp_path: Path) -> None:
    make_run(tmp_path, "20260101-120000-old-aaaa", started_ns=at("20260101"))
    make_run(tmp_path, "20260301-120000-new-bbbb", started_ns=at("20260301"))
    damaged = make_run(tmp_path, "20260201-120000-mid-cccc")
    (damaged / "run.json").write_text('{"run_id": "x"')
    (tmp_path / "20260115-120000-empty-dddd").mkdir()
    (tmp_path / "a-file").write_text("")
    (tmp_path / "a-link").symlink_to(damaged)
    entries = list_runs(tmp_path)
    (tmp_path / "no time at all").mkdir()
    assert list_runs(tmp_path)[-1].run_id == "no time at all"
    assert [entry.run_id[-4:] for entry in entries] == ["bbbb", "cccc", "dddd", "aaaa"]
    assert [entry.manifest is None for entry in entries] == [False, True, True, False]
    assert "not a run manifest" in (entries[1].problem or "")
    assert "No such file" in (entries[2].problem or "")


@pytest.mark.parametrize(
    ("older", "newer", "later"),
    [
        # Half past two comes twice in the night in which summer time ends.
        ("20261025-025900-t-aaaa", "20261025-020100-t-bbbb", 120 * 10**9),
        ("20261025-120000-t-ffff", "20261025-120000-t-0000", 1),
    ],
    ids=["a clock that was set back", "one second"],
)
def test_runs_are_in_the_order_of_their_start(
    tmp_path: Path, older: str, newer: str, later: int
) -> None:
    make_run(tmp_path, older, started_ns=at("20261025"))
    make_run(tmp_path, newer, started_ns=at("20261025") + later)
    assert [entry.run_id for entry in list_runs(tmp_path)] == [newer, older]


def test_directory_that_is_not_there_holds_no_runs(tmp_path: Path) -> None:
    assert list_runs(tmp_path / "none") == []
    (tmp_path / "file").write_text("")
    assert list_runs(tmp_path / "file") == []


def test_run_is_found_by_id_beginning_or_token(tmp_path: Path) -> None:
    for run_id in ("20260101-120000-t-aaaa", "20260101-120000-t-bbbb", "20260102-120000-t-cccc"):
        make_run(tmp_path, run_id)
    for identifier in ("20260102-120000-t-cccc", "20260102", "cccc"):
        assert find_run(tmp_path, identifier).run_id == "20260102-120000-t-cccc"
    with pytest.raises(RunNotFoundError, match="any of 2 runs"):
        find_run(tmp_path, "20260101")
    with pytest.raises(RunNotFoundError, match="no run 'zzz'"):
        find_run(tmp_path, "zzz")


def test_manifest_comes_back_as_it_was_written(tmp_path: Path) -> None:
    original = manifest(
        "r",
        overrides=(Override("DataLoader", {"num_workers": 4}, "t.py", 7, "loader-workers"),),
        profile={"window_steps": 2},
        status=Status.KILLED,
        exit_code=137,
        gpus=("A", "B"),
    )
    write_manifest(tmp_path / "run.json", original)
    assert read_manifest(tmp_path / "run.json") == original
    assert (tmp_path / "run.json").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in tmp_path.iterdir()] == ["run.json"]


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "not a run manifest"),
        (b"[]", "not a run manifest"),
        (b'{"run_id": 3}', "not a run manifest"),
        (b"\xff\xfe\x00", "not a run manifest"),
        (b"[" * 5000, "not a run manifest"),
        (b'{"schema": %d, "command": {"new": "shape"}}' % (SCHEMA + 1), "newer perftui"),
    ],
)
def test_file_that_is_no_manifest_is_refused(tmp_path: Path, content: bytes, why: str) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(ManifestError, match=why):
        read_manifest(tmp_path / "run.json")


def test_fields_of_a_newer_version_are_ignored(tmp_path: Path) -> None:
    write_manifest(tmp_path / "run.json", manifest("r"))
    text = (tmp_path / "run.json").read_text()
    (tmp_path / "run.json").write_text(text.replace("{", '{"from_the_future": 1,', 1))
    assert read_manifest(tmp_path / "run.json") == manifest("r")


@pytest.mark.parametrize(
    ("command", "script"),
    [
        (("python", "/a/b/train.py", "--lr", "1"), "train.py"),
        (("python", "-m", "pkg.train"), "-m pkg.train"),
        (("python", "-u", "train.py"), "train.py"),
        (("python", "-X", "dev", "-m", "pkg.train", "other.py"), "-m pkg.train"),
        (("torchrun", "--nproc-per-node", "2", "/a/train.py", "-m", "x"), "train.py"),
        (("torchrun", "--nproc-per-node=2", "-m", "pkg.train"), "-m pkg.train"),
        (("/usr/bin/accelerate", "launch", "train.py"), "train.py"),
        (("/bin/bash", "/a/run.sh"), "run.sh"),
        (("/usr/bin/python", "-c", "pass"), "python"),
        (("torchrun",), "torchrun"),
        (("python", "-m"), "python"),
    ],
)
def test_script_is_what_a_person_recognises(command: tuple[str, ...], script: str) -> None:
    assert manifest("r", command=command).script == script


def test_run_is_lost_when_its_recorder_is_gone() -> None:
    here = socket.gethostname()
    gone = max(psutil.pids()) + 12345
    alive = recorded_by_this_process(manifest("r", host=here, status=Status.RUNNING))
    assert with_liveness(alive).status is Status.RUNNING
    lost = manifest("r", host=here, status=Status.RUNNING, recorder_pid=gone)
    assert with_liveness(lost).status is Status.LOST
    reused = manifest(
        "r", host=here, status=Status.RUNNING, recorder_pid=os.getpid(), recorder_created=1000.0
    )
    assert with_liveness(reused).status is Status.LOST
    elsewhere = manifest("r", host=here + "-x", status=Status.RUNNING, recorder_pid=gone)
    assert with_liveness(elsewhere).status is Status.RUNNING
    over = manifest("r", host=here, status=Status.EXITED, recorder_pid=gone)
    assert with_liveness(over).status is Status.EXITED


def test_a_recorder_that_ends_after_its_manifest_was_read_is_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    here, gone = socket.gethostname(), max(psutil.pids()) + 12345
    states = [Status.RUNNING, Status.EXITED]

    def read(_: Path) -> Manifest:
        return manifest("r", host=here, status=states.pop(0), recorder_pid=gone)

    monkeypatch.setattr(manifests, "read_manifest", read)
    assert run_state(Path("r")).status is Status.EXITED


def test_a_name_is_kept_and_taken_away(tmp_path: Path) -> None:
    root = make_run(tmp_path, "one", name="the fix that was tried")
    rename_run(root, "  more \n workers ")
    assert RunReader(root).poll().manifest.name == "more workers"
    [entry] = list_runs(tmp_path)
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
