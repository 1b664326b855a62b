"""A run directory is read at every stage of its growth."""

import os
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from perftui.run.columns import EVENT_COLUMNS, STEP_COLUMNS
from perftui.run.journal import Column, JournalWriter
from perftui.run.layout import RunLayout, create_run_directory, is_run_directory
from perftui.run.manifest import (
    Manifest,
    ManifestError,
    overwrite_manifest,
    read_manifest,
    write_manifest,
)
from perftui.run.reader import RunReader
from tests.core.diagnosis.runs import joined, make_run, step_table
from tests.step_rows import step_row


@pytest.fixture
def layout(tmp_path: Path) -> RunLayout:
    layout = create_run_directory(tmp_path / ".perftui" / "runs", "r")
    write_manifest(layout.manifest, Manifest("r", ("python", "t.py"), "/w", 5, "elsewhere"))
    return layout


def step(index: int) -> list[object]:
    return step_row(index, start=1000 * index, duration=100)


def test_directory_that_is_no_run(tmp_path: Path) -> None:
    assert not is_run_directory(tmp_path)
    with pytest.raises(ManifestError):
        RunReader(tmp_path).poll()


def test_new_run_is_private_and_kept_out_of_git(layout: RunLayout) -> None:
    assert is_run_directory(layout.root)
    assert layout.root.stat().st_mode & 0o777 == 0o700
    assert (layout.root.parent.parent / ".gitignore").read_text() == "*\n"
    with pytest.raises(FileExistsError):
        create_run_directory(layout.root.parent, "r")


def test_a_run_is_read_to_its_end_at_once(
    layout: RunLayout, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long its journals: nobody looks a second time at a run that is over."""
    steps = JournalWriter(layout.rank(0).steps, STEP_COLUMNS)
    steps.append([step(index) for index in range(500)])
    steps.close()
    monkeypatch.setattr("perftui.run.journal_table.CHUNK", 1000)
    assert RunReader(layout.root).poll().ranks[0].steps["index"].tolist() == list(range(500))


def test_snapshots_grow_and_older_ones_stay(layout: RunLayout) -> None:
    reader = RunReader(layout.root)
    empty = reader.poll()
    assert empty.ranks == ()
    assert empty.rank(0) is None
    assert (empty.telemetry, empty.skipped_lines) == ({}, 0)

    steps = JournalWriter(layout.rank(0).steps, STEP_COLUMNS)
    steps.append([step(0), step(1)])
    first = reader.poll()
    steps.append([step(2)])
    second = reader.poll()
    steps.close()
    assert [len(s.ranks[0].steps) for s in (first, second)] == [2, 3]
    assert second.ranks[0].steps["start"].tolist() == [0, 1000, 2000]
    assert second.ranks[0].steps["kind"].tolist() == ["train"] * 3
    assert len(second.ranks[0].events) == 0
    assert "duration" in second.ranks[0].events


def test_names_that_are_not_utf_8_are_kept_byte_by_byte(layout: RunLayout) -> None:
    name = os.fsdecode(b"a \xff\xe9 \xc3\xa9.py")
    manifest = replace(read_manifest(layout.manifest), command=("python", name), cwd="/" + name)
    for write in (write_manifest, overwrite_manifest):
        write(layout.manifest, manifest)
        assert read_manifest(layout.manifest) == manifest


def test_every_part_of_a_run_is_found(layout: RunLayout) -> None:
    events = JournalWriter(layout.rank(1).events, EVENT_COLUMNS)
    events.append([[7, "gc", 3, 0, {"generation": 2}]])
    events.close()
    telemetry = JournalWriter(layout.telemetry("node.b"), (Column("time"), Column("cpu")))
    telemetry.append([[1, 2.5], [2, None]])
    telemetry.close()
    layout.output.write_bytes(b"12345")
    layout.rank(1).windows.mkdir()
    for name in ("30.pt.trace.json", "4.pt.trace.json.gz", ".5.pt.trace.json.partial", "x.json"):
        (layout.rank(1).windows / name).write_text("{}")

    snapshot = RunReader(layout.root).poll()
    rank = snapshot.rank(0)
    assert rank.rank == 1
    assert rank.events["data"].tolist() == [{"generation": 2}]
    assert [path.name for path in rank.windows] == ["4.pt.trace.json.gz", "30.pt.trace.json"]
    assert np.array_equal(snapshot.telemetry["node.b"]["cpu"], [2.5, np.nan], equal_nan=True)


def test_damaged_and_ill_fitting_lines_are_counted(layout: RunLayout) -> None:
    steps = JournalWriter(layout.rank(0).steps, STEP_COLUMNS)
    wrong = step(1)
    wrong[3] = "long"
    steps.append([step(0), wrong, [1, 2], step(2)])
    steps.close()
    snapshot = RunReader(layout.root).poll()
    assert snapshot.ranks[0].steps["index"].tolist() == [0, 2]
    assert snapshot.skipped_lines == 2


def test_run_with_a_journal_of_a_newer_version_is_refused_in_words(layout: RunLayout) -> None:
    layout.rank(0).root.mkdir()
    layout.rank(0).steps.write_text('{"columns": [], "schema": 99}\n')
    reader = RunReader(layout.root)
    for _ in range(2):
        with pytest.raises(ManifestError, match=r"steps\.jsonl: written by a newer perftui"):
            reader.poll()


def test_a_window_of_slow_steps_that_nobody_asked_for_is_shown_only_if_there_is_no_other() -> None:
    usual, slow = {"forward": 10.0}, {"forward": 100.0}
    steps = joined(
        *(step_table(2, usual), step_table(2, usual, profiled=1), step_table(20, usual)),
        *(step_table(2, slow, profiled=1), step_table(20, usual)),
    )
    first, second = (Path(f"windows/{step}.pt.trace.json") for step in (2, 24))

    def shown(*reasons: str, ranks: int = 1) -> tuple[Path, ...]:
        notes = zip((2, 24), reasons, strict=False)
        run = make_run(
            steps=steps,
            events=[("window", {"first_step": at, "steps": 2, "reason": why}) for at, why in notes],
        )
        rank = replace(run.ranks[0], windows=(first, second)[: len(reasons)])
        others = (replace(rank, rank=other) for other in range(1, ranks))
        return replace(run, ranks=(rank, *others)).windows()

    assert shown("warm", "slow") == (first, second)
    assert shown("warm", "asked") == (second, first)
    assert shown("warm", "slow", ranks=2) == (second, first)
    assert shown("slow") == (first,)
