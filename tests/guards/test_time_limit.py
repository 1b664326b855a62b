"""A test that never ends is ended, and it is told which and where."""

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


def run(
    folder: Path, tests: str, workers: int, hooks: str = ""
) -> subprocess.CompletedProcess[str]:
    """Have pytest run ``tests`` with the settings of this project and a short limit."""
    (folder / "conftest.py").write_text(SHORT + hooks, encoding="utf-8")
    test = folder / "test_spinning.py"
    test.write_text(tests, encoding="utf-8")
    return subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-v", "-c", os.fspath(ROOT / "pyproject.toml")),
            *("-p", "tests.time_limit", "-p", "no:cacheprovider", "-n", str(workers)),
            *(("--dist", "worksteal") if workers else ()),
            *(f"--rootdir={ROOT}", os.fspath(test)),
        ],
        cwd=ROOT,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=120,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("where", "workers"), [("python", 0), ("c", 0), ("a second thread", 0), ("python", 1)]
)
def test_what_never_ends_is_ended_and_told(tmp_path: Path, where: str, workers: int) -> None:
    told = run(tmp_path, FOREVER[where] + TESTS, workers)
    assert told.returncode == 1
    assert "Timeout (0:00:02)!" in told.stdout
    assert f'File "{tmp_path / "test_spinning.py"}", line' in told.stdout
    assert "in spin" in told.stdout
    if workers:
        assert "::test_that_spins" in told.stdout
        assert "1 failed, 1 passed" in told.stdout


WAITING = """
import time

def pytest_runtest_logstart(nodeid):
    if "second" in nodeid:
        time.sleep(2.5)
"""


@pytest.mark.slow
def test_who_waits_for_the_next_test_is_not_ended(tmp_path: Path) -> None:
    """As a worker of xdist does while the others have all that is left."""
    tests = "def test_first():\n    pass\n\ndef test_second():\n    pass\n"
    told = run(tmp_path, tests, 0, WAITING)
    assert "2 passed" in told.stdout
    assert told.returncode == 0


def test_every_test_of_this_project_is_watched(request: pytest.FixtureRequest) -> None:
    assert request.config.pluginmanager.hasplugin("tests.time_limit")
