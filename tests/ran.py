"""Running a command in the process of the tests."""

import pytest
from _pytest.capture import CaptureResult

from perftui_tui.cli import main

Capture = pytest.CaptureFixture[str]
Patch = pytest.MonkeyPatch


def ran(capsys: Capture, *words: str, code: int = 0) -> CaptureResult[str]:
    """What ``perftui`` prints for ``words``, which ends with ``code``."""
    assert main([*words]) == code
    return capsys.readouterr()
