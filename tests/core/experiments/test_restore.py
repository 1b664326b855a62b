"""What the runs of a trial write to is given back as it was."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from perftui.experiments.files_of_trials import restore, restore_all
from perftui.run.layout import RunLayout
from perftui.run.reader import RunReader

SCRIPT = """
import json, os, shutil, sys
from pathlib import Path
import torch

here = Path(sys.argv[1])
model = torch.nn.Linear(4, 4)
optimizer = torch.optim.SGD(model.parameters(), 0.1)
log = open(here / "log.jsonl", "a")
(here / "out" / "deep").mkdir(parents=True)
for step in range(5):
    model(torch.ones(4, 4)).sum().backward()
    optimizer.step()
    log.write(json.dumps(step) + "\\n")
torch.save(model.state_dict(), here / "best.pt")
torch.save(model.state_dict(), f=str(here / "out" / "new.pt"))
torch.save(model.state_dict(), here / "tmp.pt")
os.replace(here / "tmp.pt", here / "last.pt")
shutil.copyfile(here / "best.pt", here / "copy.pt")
(here / "old.txt").unlink()
(here / "kept" / "notes.txt").write_text("changed")
assert torch.load(here / "best.pt").keys() == model.state_dict().keys()
print(sorted(path.name for path in here.iterdir()))
"""


def contents(directory: Path) -> dict[str, bytes | None]:
    return {
        str(path.relative_to(directory)): path.read_bytes() if path.is_file() else None
        for path in sorted(directory.rglob("*"))
    }


@pytest.mark.slow
@pytest.mark.subprocess
def test_a_run_of_a_trial_leaves_the_directory_as_it_was(tmp_path: Path) -> None:
    here, runs, temporary = (tmp_path / name for name in ("here", "runs", "temporary"))
    (here / "kept").mkdir(parents=True)
    temporary.mkdir()
    for name in ("best.pt", "log.jsonl", "last.pt", "old.txt", "kept/notes.txt"):
        (here / name).write_text(f"what {name} was\n")
    (here / "old.txt").chmod(0o640)
    os.utime(here / "old.txt", (1_000_000_000, 1_000_000_000))
    before = contents(here)
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    program = (
        "import sys; from pathlib import Path; from dataclasses import replace\n"
        "from perftui.recorder.launch import Launch, start\n"
        "from perftui.wire.spool import AgentOptions\n"
        "from perftui.run.manifest import wait_until_over\n"
        "command = (sys.executable, sys.argv[1], sys.argv[2])\n"
        "options = AgentOptions(profile=False, spares_files=True)\n"
        "root = start(Launch(command, Path.cwd(), Path(sys.argv[3]), options=options))\n"
        "wait_until_over(root, 120)\n"
    )
    subprocess.run(
        [sys.executable, "-c", program, str(script), str(here), str(runs)],
        cwd=tmp_path,
        env={**os.environ, "TMPDIR": str(temporary)},
        check=True,
    )
    (root,) = (path for path in runs.iterdir() if path.is_dir())
    run = RunReader(root).poll()
    assert run.manifest.exit_code == 0, (root / "output.log").read_text()
    assert contents(here) != before
    restore(root)
    assert contents(here) == before
    assert (here / "old.txt").stat().st_mode & 0o777 == 0o640
    assert (here / "old.txt").stat().st_mtime == 1_000_000_000
    made = RunLayout(root).spared / "made"
    assert {path.name for path in made.rglob("*.pt")} == {"new.pt", "copy.pt"}
    # A second time there is nothing to give back.
    (here / "best.pt").write_text("newer")
    restore(root)
    assert (here / "best.pt").read_text() == "newer"


def test_nothing_was_written(tmp_path: Path) -> None:
    restore(tmp_path)
    assert not list(tmp_path.iterdir())


def test_a_journal_cut_off_gives_back_what_it_names(tmp_path: Path) -> None:
    spared = RunLayout(tmp_path).spared
    spared.mkdir()
    (spared / "a").write_text("as it was")
    file = tmp_path / "file"
    file.write_text("new")
    line = f'{{"path": "{file}", "copy": "a", "time": 1}}\n{{"path": "{tmp_path}/other", "co'
    (spared / "journal.jsonl").write_text(line)
    restore_all(tmp_path.parent)
    assert file.read_text() == "as it was"
