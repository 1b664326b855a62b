"""Files of a run: replaced whole, and read though they were damaged or made to do harm."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.report.report import make_report
from perftui.report.subject import SubjectError, load_subject
from perftui.report.text import render
from perftui.run.files import read_regular, replacing
from perftui.run.layout import RunLayout
from perftui.run.manifest import ManifestError, read_manifest
from perftui.run.reader import list_runs
from tests.tui.recorded import ENDED, manifest, write_run

FILES = (
    *("run.json", "name", "heartbeat.json", "findings.json", "output.log", "worker_curve.json"),
    *("telemetry-x.jsonl", "rank-0/steps.jsonl", "rank-0/events.jsonl", "rank-0/stacks.jsonl"),
    *("rank-0/windows/3.pt.trace.json", "rank-0/memory/1.pickle", "hosts/h/run.json"),
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda one: st.lists(one, max_size=3) | st.dictionaries(st.text(max_size=8), one, max_size=3),
    max_leaves=8,
)
FIELDS = tuple(vars(manifest()))


def shown(root: Path) -> str:
    """What a report of it says, or why there is none."""
    try:
        return render(make_report(load_subject(root)))
    except (SubjectError, OSError) as error:
        return str(error)


@pytest.mark.parametrize("kind", ["pipe", "device"])
@pytest.mark.parametrize("name", FILES)
def test_pipes_and_devices_are_not_read(kind: str, name: str, tmp_path: Path) -> None:
    """A pipe would never be answered, and the device never ends."""
    root = write_run(tmp_path / "runs", steps=40, **ENDED)
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    if kind == "pipe":
        os.mkfifo(path)
    else:
        path.symlink_to("/dev/zero")
    assert shown(root)
    assert len(list_runs(root.parent)) <= 1


def test_a_source_that_is_a_device_is_not_read(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", script=Path("/dev/zero"), **ENDED)
    assert "input-in-main-thread" in shown(root)


def test_names_of_ranks_lead_nowhere(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", steps=40, **ENDED)
    for name in ("..", "9/../../x", "99999999999999999999x", "-1", "٣", "²", "07", "x", ""):
        (root / f"rank-{name}").mkdir(parents=True, exist_ok=True)
    (root / "rank-5").write_text("")
    (root / "hosts").mkdir()
    (root / "hosts" / "up").symlink_to("../..")
    ranks = RunLayout(root).ranks()
    assert [rank for rank in ranks if rank not in (0, 9)] == []
    assert all(RunLayout(root).rank(rank).root.parent == root for rank in ranks)
    assert shown(root)


def test_a_parent_is_the_name_of_a_run_beside(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", parent="../../etc", **ENDED)
    assert "etc" not in shown(root)


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(FIELDS), JSON, max_size=3))
def test_a_manifest_of_anything_is_an_error_or_a_run(
    tmp_path_factory: pytest.TempPathFactory, fields: dict[str, Any]
) -> None:
    path = tmp_path_factory.mktemp("run") / "run.json"
    usual = {"run_id": "r", "command": ["python"], "cwd": "/", "started_ns": 1, "host": "h"}
    path.write_text(json.dumps({**usual, **fields}))
    try:
        found = read_manifest(path)
    except ManifestError:
        return
    assert isinstance(found.script, str)
    assert isinstance(found.state, str)


@pytest.mark.parametrize(
    "text",
    ["[" * 1_000_000, '{"run_id":' * 200_000, '{"profile":' + "[" * 200_000 + "]" * 200_000 + "}"],
    ids=["array", "object", "field"],
)
def test_a_deep_manifest_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "run.json").write_text(text)
    with pytest.raises(ManifestError, match="not a run manifest"):
        read_manifest(tmp_path / "run.json")


def test_a_run_without_a_command_is_listed_and_shown(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", steps=40, command=(), **ENDED)
    (entry,) = list_runs(root.parent)
    assert entry.manifest.script == ""
    assert shown(root)


def test_an_endless_file_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "large"
    with path.open("wb") as file:
        file.truncate(2**20 + 1)
    with pytest.raises(OSError, match="more than 1 MiB"):
        read_regular(path, 2**20)


def test_a_file_is_seen_once_it_is_whole_and_what_fails_half_way_leaves_the_old_one(
    tmp_path: Path,
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    with pytest.raises(ZeroDivisionError), replacing(path) as file:
        file.writelines(b"new" if turn else 1 // turn for turn in (1, 0))
    assert path.read_bytes() == b"old"
    with replacing(path) as file:
        file.write(b"new")
        file.flush()
        assert path.read_bytes() == b"old"
    assert path.read_bytes() == b"new"
    assert list(tmp_path.iterdir()) == [path]
