"""Small trainings with a planted bottleneck: the diagnosis names the planted one, and no other."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

HERE = Path(__file__).parent

pytestmark = pytest.mark.subprocess


def diagnosis_of(script: str, runs: Path) -> dict[str, object]:
    """Run a scenario headless, then ask for the report as a user would."""
    perftui = [sys.executable, "-m", "perftui_tui"]
    subprocess.run(
        [*perftui, "--headless", "--runs", str(runs), str(HERE / script)],
        check=True,
        capture_output=True,
        stdin=subprocess.DEVNULL,
    )
    report = subprocess.run(
        [*perftui, "report", str(runs), "--json"], check=True, capture_output=True
    )
    return msgspec.json.decode(report.stdout, type=dict)


@pytest.mark.parametrize(
    ("script", "rules", "fixes"),
    [
        ("input_in_main_thread.py", ["input-in-main-thread"], {"loader-workers"}),
        ("input_with_workers.py", ["input-bound"], {"loader-workers"}),
        ("healthy.py", ["healthy"], set()),
    ],
)
def test_the_planted_bottleneck_is_found(
    script: str, rules: list[str], fixes: set[str], tmp_path: Path
) -> None:
    report = diagnosis_of(script, tmp_path / "runs")
    assert [finding["rule"] for finding in report["findings"]] == rules
    assert set(report["findings"][0]["fixes"]) >= fixes
