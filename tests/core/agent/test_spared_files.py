"""A run of a trial does not write to a file of which no copy can be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.core.agent.conftest import Train

pytestmark = pytest.mark.subprocess

SOURCE = """
import os, shutil, sys
import torch

spared = sys.argv[1]
open("first.txt", "w").write("new")
shutil.rmtree(spared)
def tried(work):
    try:
        work()
        print("written")
    except OSError as error:
        print(error.strerror, os.path.basename(error.filename))
tried(lambda: open("best.txt", "w"))
tried(lambda: torch.save({}, "best.pt"))
tried(lambda: os.replace("first.txt", "best.txt"))
tried(lambda: open("best.txt", "w"))
print(open("best.txt").read())
"""


def test_it_is_refused(train: Train, tmp_path: Path) -> None:
    spared = tmp_path / "spared"
    for name in ("first.txt", "best.txt", "best.pt"):
        (tmp_path / name).write_text(f"what {name} was")
    run = train(SOURCE, str(spared), options={"spares_files": True, "spared": str(spared)})
    assert (run.code, run.err) == (0, "")
    refused = "perftui cannot keep a copy: No such file or directory"
    assert run.out.splitlines() == [
        f"{refused} best.txt",
        f"{refused} best.pt",
        f"{refused} best.txt",
        f"{refused} best.txt",
        "what best.txt was",
    ]
    assert (tmp_path / "best.pt").read_text() == "what best.pt was"
