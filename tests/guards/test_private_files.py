"""What is recorded is for its owner alone, whatever the umask is."""

import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.subprocess
def test_a_run_is_readable_by_its_owner_alone(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("print('trained')\n")
    environment = {**os.environ, "XDG_STATE_HOME": str(tmp_path / "state")}
    subprocess.run(
        [sys.executable, "-m", "perftui_tui", "--headless", "train.py"],
        cwd=tmp_path,
        env=environment,
        umask=0,
        capture_output=True,
        check=True,
    )
    (root,) = (tmp_path / ".perftui" / "runs").glob("*-train-*")
    found = [root, *root.rglob("*"), *(tmp_path / "state").rglob("*")]
    assert root / "origin" in found
    shared = [path for path in found if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    assert shared == []
