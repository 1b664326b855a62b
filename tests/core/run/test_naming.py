"""Runs get names."""

from __future__ import annotations

from pathlib import Path

from perftui.run.history import list_runs
from perftui.run.layout import RunLayout
from perftui.run.manifest import LONGEST, read_manifest, rename_run
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
