"""A script that is run with a patch of one of its files is the script that it would be."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from perftui.recorder.environment import PATCHED_MAIN

pytestmark = pytest.mark.subprocess

SCRIPT = '''"""What it is."""
from __future__ import annotations

import inspect
import json
import multiprocessing
import sys

import helper


def told() -> dict:
    here = sys._getframe()
    return {
        "names": sorted(globals()),
        "name": __name__,
        "file": __file__,
        "doc": __doc__,
        "spec": __spec__,
        "package": __package__,
        "loader": type(__loader__).__name__,
        "builtins": type(__builtins__).__name__,
        "annotations": str(told.__annotations__),
        "argv": sys.argv,
        "path": sys.path[0],
        "code": here.f_code.co_filename,
        "line": here.f_lineno,
        "source": inspect.getsource(told),
        "of helper": inspect.getsource(helper.answer),
        "answer": helper.answer(),
        "main": sys.modules["__main__"].__dict__ is globals(),
    }


if __name__ == "__main__":
    print(json.dumps(told()))
    sys.exit(3)
'''
HELPER = "def answer():\n    return 41\n"


def run(words: list[str], cwd: Path, **environment: str) -> tuple[int, Any]:
    ended = subprocess.run(
        [sys.executable, *words, "--lr", "0.1"],
        cwd=cwd,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not ended.stderr
    return ended.returncode, json.loads(ended.stdout)


def patched(words: list[str], cwd: Path, **patches: bytes) -> tuple[int, Any]:
    """Run ``words``, its first one the script, with ``patches`` by the stem of their file."""
    given = []
    for stem, content in patches.items():
        kept = cwd / f"patch-of-{stem}"
        kept.write_bytes(content)
        arguments = {"source": str(kept), "word": 1, "script": words[0]}
        file = str(cwd / f"{stem}.py")
        given.append({"target": "source", "arguments": arguments, "file": file})
    overrides = json.dumps(given)
    return run([str(PATCHED_MAIN), *words[1:]], cwd, PERFTUI_OVERRIDES=overrides)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    (tmp_path / "train.py").write_text(SCRIPT)
    (tmp_path / "helper.py").write_text(HELPER)
    return tmp_path


@pytest.mark.parametrize("script", ["train.py", "./train.py", "link.py"])
def test_nothing_but_the_patch_differs(directory: Path, script: str) -> None:
    elsewhere = directory / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "train.py").write_text(SCRIPT)
    (elsewhere / "helper.py").write_text(HELPER)
    (directory / "link.py").symlink_to(elsewhere / "train.py")
    assert patched([script], directory, train=SCRIPT.encode()) == run([script], directory)


def test_a_script_of_another_directory_finds_its_modules(directory: Path, tmp_path: Path) -> None:
    (tmp_path / "deep").mkdir()
    words = [str(directory / "train.py")]
    content = SCRIPT.encode()
    overrides = [
        {
            "target": "source",
            "file": words[0],
            "arguments": {"source": str(directory / "kept"), "word": 1, "script": words[0]},
        }
    ]
    (directory / "kept").write_bytes(content)
    said = run([str(PATCHED_MAIN)], tmp_path / "deep", PERFTUI_OVERRIDES=json.dumps(overrides))
    assert said == run(words, tmp_path / "deep")


def test_the_patch_is_what_runs_and_what_is_shown(directory: Path) -> None:
    script = SCRIPT.replace("def told", "\n\n# äöü\ndef told").replace("sys.exit(3)", "sys.exit(4)")
    code, said = patched(["train.py"], directory, train=script.encode())
    _, before = run(["train.py"], directory)
    assert code == 4
    assert said["line"] == before["line"] + 3
    assert said["source"] == before["source"]
    assert (directory / "train.py").read_text() == SCRIPT


def test_a_patch_of_a_module_is_imported_in_its_place(directory: Path) -> None:
    run(["train.py"], directory)
    # What Python had compiled of it is not taken.
    code, said = patched(["train.py"], directory, helper=HELPER.replace("41", "42").encode())
    assert (code, said["answer"]) == (3, 42)
    assert "42" in said["of helper"]
    assert run(["train.py"], directory)[1]["answer"] == 41
