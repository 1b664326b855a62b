"""Records ``runs/`` anew, where a GPU is at hand: ``python tests/gpu/record.py [NAME...]``.

Each is packed whole, as the app would open it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path

HERE = Path(__file__).parent
RUNS = HERE / "runs"

WINDOW = ("--steps", "12-13", "--max-steps", "30")
RECORDED = {
    "starved": (*WINDOW, "--stacks", "pictures.py", "60", "1"),
    "item": (*WINDOW, "--syncs", "--shapes", "pictures.py", "60", "8", "item"),
    "language": (*WINDOW, "--modules", "language.py", "60", "8"),
    "compiled": (*WINDOW, "language.py", "60", "2", "compile"),
    "tiny": ("--steps", "40-44", "--max-steps", "100", "tiny.py", "60"),
}
"""What follows ``perftui --headless``; the scripts are those of ``trainings/``."""

PLACE = Path(tempfile.gettempdir()) / "trainings"
"""Where they run: what is recorded of a run names it."""


def record(name: str) -> None:
    shutil.copytree(HERE / "trainings", PLACE, dirs_exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        runs = Path(folder) / "runs"
        command = [sys.executable, "-m", "perftui_tui", "--headless", "--runs", str(runs)]
        subprocess.run(
            [*command, *RECORDED[name]], cwd=PLACE, check=True, stdout=subprocess.DEVNULL
        )
        (root,) = runs.iterdir()
        forget_machine(root / "run.json")
        RUNS.mkdir(exist_ok=True)
        packed = RUNS / f"{name}.tar.xz"
        with tarfile.open(packed, "w:xz") as archive:
            for path in sorted(root.rglob("*")):
                if path.is_file() and path.suffix != ".lock":
                    archive.add(path, path.relative_to(root))
        print(name, packed.stat().st_size, flush=True)


def forget_machine(manifest: Path) -> None:
    """Where its interpreter lies says nothing about the run."""
    facts = json.loads(manifest.read_bytes())
    facts["command"][0] = facts["interpreter"] = "python3"
    manifest.write_text(json.dumps(facts, indent=1))


if __name__ == "__main__":
    for each in sys.argv[1:] or RECORDED:
        record(each)
