from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments.rerun import Form, repeat_launch, rerun_launch
from perftui.fixes.model import FixOption, Patch
from perftui.recorder.launch import prepare
from perftui.run.manifest import Expected, Override, read_manifest
from tests.core.diagnosis.runs import make_run

TRY = Override("DataLoader", {"num_workers": 2}, "/p/train.py", 3, "loader-workers")
OPTION = FixOption(
    "loader-workers",
    "num_workers 0 -> 2",
    "",
    override=TRY,
)


def run(**changes):
    return make_run(root=Path("/runs/one"), cwd="/p", **changes)


def test_a_run_is_repeated_with_the_override() -> None:
    launch = rerun_launch(run(), OPTION)
    assert launch.command == ("python", "train.py")
    assert launch.overrides == (TRY,)
    assert (launch.parent, launch.runs, launch.cwd) == ("one", Path("/runs"), Path("/p"))
    assert launch.name == "num_workers 0 -> 2"


def test_a_patched_source_runs_without_the_override_it_replaces() -> None:
    other = Override("environment", {"OMP_NUM_THREADS": "1"}, fix="threads")
    launch = rerun_launch(run(overrides=(TRY, other)), OPTION, Form.SOURCE)
    assert (launch.command, launch.overrides) == (("python", "train.py"), (other,))


LOADER = "torch.utils.data.DataLoader"


def test_a_run_of_a_patched_source_notes_what_was_written(tmp_path) -> None:
    patch = Patch(Path("/p/train.py"), b"", b"", {"num_workers": 2}, LOADER, 3)
    option = replace(OPTION, patch=patch)
    launch = rerun_launch(run(), option, Form.SOURCE)
    layout = prepare(replace(launch, runs=tmp_path, cwd=tmp_path))
    written = (Expected("DataLoader", {"num_workers": 2}, "/p/train.py", 3),)
    assert read_manifest(layout.manifest).patched == written
    assert rerun_launch(run(), option).expected == ()
    assert repeat_launch(run(expected=written)).expected == ()


def test_what_an_older_version_noted_of_a_patch_is_read(tmp_path) -> None:
    layout = prepare(replace(rerun_launch(run(), OPTION), runs=tmp_path, cwd=tmp_path))
    manifest = json.loads(layout.manifest.read_bytes())
    for old, patched in (
        ({"num_workers": 2}, (Expected("DataLoader", {"num_workers": 2}),)),
        ({}, ()),
    ):
        layout.manifest.write_text(json.dumps({**manifest, "expected": old}))
        assert read_manifest(layout.manifest).patched == patched


def test_a_second_try_of_a_fix_replaces_the_first() -> None:
    first = Override("DataLoader", {"num_workers": 1}, "/p/train.py", 3, "loader-workers")
    assert rerun_launch(run(overrides=(first,)), OPTION).overrides == (TRY,)


def test_an_option_that_cannot_be_tried_is_refused() -> None:
    bare = FixOption("loader-workers", "", "", why_not="the dataset holds open files")
    with pytest.raises(ValueError, match="open files"):
        rerun_launch(run(), bare)


def test_the_options_of_the_profiler_are_used_again() -> None:
    assert repeat_launch(run(profile={"window_steps": 5})).options.window_steps == 5
    assert repeat_launch(run(profile={"window_steps": "many"})).options.window_steps is None


def test_the_main_thread_is_looked_at_as_often_again() -> None:
    assert repeat_launch(run(profile={"stack_rate": 25})).stack_samples_per_second == 25
    assert repeat_launch(run(profile={"stack_rate": 0})).stack_samples_per_second == 0
    assert repeat_launch(run(profile={"stack_rate": "often"})).stack_samples_per_second == 0
    assert repeat_launch(run(profile={})).stack_samples_per_second == 0
    assert repeat_launch(run(overrides=(TRY,))).overrides == (TRY,)
