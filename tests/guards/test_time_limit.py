"""A test that never ends is ended, and it is told which and where."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

SHORT = """
from tests import time_limit

time_limit.SECONDS = 2
"""
FOREVER = {
    "python": """
def spin():
    while True:
        pass
""",
    "c": """
import ctypes

def spin():
    ctypes.PyDLL(None).pause()
""",
    "a second thread": """
import threading

def loop():
    while True:
        pass

def spin():
    thread = threading.Thread(target=loop)
    thread.start()
    thread.join()
""",
}
TESTS = """
def test_that_passes():
    pass

def test_that_spins():
    spin()
"""


@pytest.mark.parametrize(
    ("where", "workers"), [("python", 0), ("c", 0), ("a second thread", 0), ("python", 1)]
)
def test_what_never_ends_is_ended_and_told(tmp_path: Path, where: str, workers: int) -> None:
    (tmp_path / "conftest.py").write_text(SHORT, encoding="utf-8")
    test = tmp_path / "test_spinning.py"
    test.write_text(FOREVER[where] + TESTS, encoding="utf-8")
    told = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-c", os.fspath(ROOT / "pyproject.toml")),
            *("-p", "tests.time_limit", "-p", "no:cacheprovider", "-n", str(workers)),
            *(f"--rootdir={ROOT}", os.fspath(test)),
        ],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )
    assert told.returncode == 1
    assert "Timeout (0:00:02)!" in told.stdout
    assert f'File "{test}", line' in told.stdout
    assert "in spin" in told.stdout
    if workers:
        assert "::test_that_spins" in told.stdout
        assert "1 failed, 1 passed" in told.stdout


def test_every_test_of_this_project_is_watched(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.hasplugin("tests.time_limit")
