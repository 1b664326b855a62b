"""Threads of workers: which line sets them, and what is written there."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.fixes.catalogue import options
from perftui.fixes.data_loader import one_thread
from perftui.fixes.model import FixOption
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.runs import MS
from tests.core.diagnosis.test_input_rules import run_of, worker
from tests.core.fixes.test_line_changes import changed, difference

HEAD = "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"
START = """
def begin(number):
    torch.set_num_threads(4)  # here
loader = DataLoader(data, worker_init_fn=begin)
"""

WRITTEN = {
    "the start of a worker": START,
    "through partial": START.replace("=begin", "=functools.partial(begin, 1)"),
    "a variable": START.replace("(4)", "(args.threads)"),
    "a count": START.replace("(4)", "(max(len(os.sched_getaffinity(0)), 2))"),
    "a lambda": "loader = DataLoader(d, worker_init_fn=lambda _: torch.set_num_threads(4))  # here",
    "a dataset": (
        "class Frames(torch.utils.data.Dataset):\n    def __getitem__(self, index):\n"
        "        torch.set_num_threads(4)  # here\n"
    ),
    "another library": "import cv2\n" + START.replace("torch.set_num_threads", "cv2.setNumThreads"),
}


@pytest.mark.parametrize("source", WRITTEN.values(), ids=WRITTEN)
def test_a_worker_gets_one_thread(source: str) -> None:
    taken, given = difference(one_thread, HEAD + source)
    assert taken.startswith("- ")
    assert "hreads(1)" in given


REFUSED = {
    "the training's own": ("torch.set_num_threads(4)  # here\n", "threads of its workers"),
    "a function that nobody gives a worker": (START.replace("=begin", "=other"), "of its workers"),
    "two of that name": (START + "begin = other\n", "of its workers"),
    "a model": (
        "class Net(torch.nn.Module):\n    def __iter__(self):\n"
        "        torch.set_num_threads(4)  # here\n",
        "of its workers",
    ),
    "the start of a dataset": (
        "class Frames(Dataset):\n    def __init__(self):\n"
        "        torch.set_num_threads(4)  # here\n",
        "of its workers",
    ),
    "one already": (START.replace("(4)", "(1)"), "already has one thread"),
    "it does more": (START.replace("(4)", "(ask())"), "may do more than count"),
}


@pytest.mark.parametrize(("source", "why"), REFUSED.values(), ids=REFUSED)
def test_other_threads_are_left_alone(source: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        changed(one_thread, HEAD + source)


def offered(script: Path, source: str) -> dict[str, FixOption]:
    script.write_text(HEAD + source.replace("  # here", ""))
    rows = [worker(at, cpu=0.5, delayed=0.4, others=1.0, threads=6 * 1000 * MS) for at in range(4)]
    run = run_of(*rows, cores=2, num_workers=4, file=str(script), line=6)
    facts = Facts(replace(run, manifest=replace(run.manifest, cwd=str(script.parent))))
    (finding,) = [one for one in diagnosis(facts).findings if one.rule == "workers-oversubscribed"]
    return {one.fix: one for one in options(finding, facts)}


def test_the_line_is_found_in_the_script(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = tmp_path / "train.py"
    monkeypatch.setattr("perftui.fixes.data_loader.own_files", lambda _: ((script, 0),))
    found = offered(script, START)["worker-threads"]
    assert (found.title, found.line) == ("threads of a worker 4 -> 1", 5)
    assert found.patch is not None
    assert b"    torch.set_num_threads(1)\n" in found.patch.after


def test_where_no_line_sets_them_it_is_advised(tmp_path: Path) -> None:
    found = offered(tmp_path / "train.py", "\n\n\nloader = DataLoader(data)\n")["worker-threads"]
    assert (found.patch, found.line) == (None, 6)
    assert "cv2.setNumThreads(0)" in found.advice
