"""What a training writes of warnings and of its failure is the same with perftui and without.

Warnings name their caller by the number of frames above: no frame of ours may be between.
"""

import subprocess
import sys
from pathlib import Path

import pytest

from perftui.agent.native import IS_COMPILED
from tests.capture.watched import quick_environment

WARNER = str(Path(__file__).with_name("warner.py"))

pytestmark = [
    pytest.mark.slow,
    pytest.mark.subprocess,
    pytest.mark.skipif(not IS_COMPILED, reason="what is not compiled has frames"),
]


def written(command: list[str], cwd: Path) -> tuple[int, bytes]:
    """Exit code, and all that is written."""
    done = subprocess.run(
        command,
        cwd=cwd,
        env=quick_environment(),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
    )
    return done.returncode, done.stdout


@pytest.mark.parametrize(
    ("how", "fails", "workers"),
    [
        ("always", "nowhere", 0),
        ("default", "item", 1),
        ("default", "item,collate,forward,inner,gradient,optimizer", 0),
    ],
)
def test_warnings_and_tracebacks_are_the_same(
    how: str, fails: str, workers: int, tmp_path: Path
) -> None:
    script = [WARNER, fails, str(workers)]
    plain = written([sys.executable, "-W", how, *script], tmp_path)
    perftui = [sys.executable, "-m", "perftui_tui", "--headless", "--"]
    watched = written([*perftui, sys.executable, "-W", how, *script], tmp_path)

    assert plain[0] == (fails != "nowhere")
    assert plain[1].count(b"UserWarning") > 50
    failures = 0 if fails == "nowhere" else fails.count(",") + 1
    assert plain[1].count(b"Traceback (most recent call last)") == failures + workers
    assert watched == plain
