"""Runs that somebody else made: they are shown, and nothing of them is run."""

import hashlib
import json
import os
from pathlib import Path

import pytest

from perftui.run import origin
from perftui_tui.cli import main
from tests.ran import Capture, Patch, ran
from tests.tui.recorded import ENDED, START, write_run

ESCAPES = "\x1b]52;c;ZXZpbA==\x07\x9b2J\u202ename\r\n"


@pytest.fixture(autouse=True)
def is_careful(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.delenv("PERFTUI_TRUST_RUNS")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    monkeypatch.setattr(origin, "_trusted", set())


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "mine" / "train.py"
    path.parent.mkdir()
    path.write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(pictures):\n"
        "    return DataLoader(pictures, batch_size=128, shuffle=True)\n"
    )
    os.utime(path, ns=(START - 10**9, START - 10**9))
    return path


def foreign(tmp_path: Path, script: Path) -> tuple[Path, Path]:
    """A run that would make a file, and that file."""
    made = tmp_path / "made"
    command = ("/usr/bin/touch", str(made), str(script))
    runs = tmp_path / "theirs" / ".perftui" / "runs"
    root = write_run(
        runs, script=script, loader_line=5, command=command, cwd=str(tmp_path), **ENDED
    )
    return root, made


@pytest.mark.parametrize(
    "words",
    [["try"], ["try", "loader-workers"], ["tune"], ["isolate"], ["diagnose"], ["apply"]],
    ids=" ".join,
)
def test_commands_run_nothing_of_a_foreign_run(
    words: list[str], tmp_path: Path, script: Path, capsys: Capture
) -> None:
    root, made = foreign(tmp_path, script)
    before = script.read_bytes()
    assert main([*words, str(root)]) in (1, 2)
    told = capsys.readouterr().err
    assert f"was not recorded by you on this machine. It asks to run, in {tmp_path}:" in told
    assert f"/usr/bin/touch {made}" in told
    assert "--trust" in told
    assert not made.exists()
    assert script.read_bytes() == before


@pytest.mark.subprocess
def test_a_foreign_run_is_run_when_it_is_trusted(tmp_path: Path, script: Path) -> None:
    root, made = foreign(tmp_path, script)
    main(["diagnose", "--trust", str(root)])
    assert made.exists()


def test_a_record_in_a_repository_undoes_nothing(
    tmp_path: Path, script: Path, capsys: Capture
) -> None:
    root, _ = foreign(tmp_path, script)
    target, store = tmp_path / "profile", root.parent.parent / "patches"
    target.write_text("mine")
    store.mkdir()
    record = {
        "patch_id": "1-a",
        "path": str(target),
        "title": "a",
        "before_sha256": hashlib.sha256(b"theirs").hexdigest(),
        "after_sha256": hashlib.sha256(b"mine").hexdigest(),
        "mode": 0o4755,
        "modified_ns": 0,
    }
    (store / "1-a.json").write_text(json.dumps(record))
    (store / "1-a.original").write_text("theirs")
    assert f"Undoing it would write {target}" in ran(capsys, "undo", str(root), code=1).err
    assert target.read_text() == "mine"


def test_a_foreign_run_is_shown(tmp_path: Path, script: Path, capsys: Capture) -> None:
    root, made = foreign(tmp_path, script)
    assert "input-in-main-thread" in ran(capsys, "report", "--brief", str(root)).out
    assert not made.exists()


@pytest.mark.parametrize(
    "form",
    [[], ["--brief"], ["--json"], ["--markdown"], ["--redact"]],
    ids=lambda form: "".join(form),
)
def test_no_form_of_a_report_holds_an_escape_sequence(
    form: list[str], tmp_path: Path, capsys: Capture
) -> None:
    root = write_run(
        tmp_path / "runs",
        host=ESCAPES,
        command=("python", f"{ESCAPES}.py"),
        notes=(ESCAPES,),
        message=ESCAPES,
        name=ESCAPES,
        script=Path(f"/x/{ESCAPES}.py"),
        **ENDED,
    )
    assert main(["report", *form, str(root)]) == 0
    printed = ran(capsys, "runs", str(root.parent))
    unsafe = {*"\x1b\x07\x9b\u202e\r"} & {*printed.out, *printed.err}
    assert unsafe == set()
