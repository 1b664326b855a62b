"""Arguments of a data loader: a longer queue, and one thread in each worker."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.fixes.catalogue import options
from perftui.fixes.data_loader import loader_prefetch, one_thread
from perftui.fixes.fix import option
from perftui.fixes.option import FixOption, Risk
from perftui.run.manifest import Override
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.runs import MS, joined, make_run, step_table, worker_table
from tests.core.diagnosis.test_input_wait import bursts, run_of, worker
from tests.core.fixes.test_line_changes import changed, difference

HEAD = "from torch.utils.data import DataLoader\n"


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_text(f"{HEAD}loader = DataLoader(data, num_workers=2)\n")
    return path


def prefetching(script: Path, every: int = 20, size: int = 0, **loader: Any) -> FixOption:
    """For two workers, where each ``every`` steps one waits long."""
    given = {"id": 1, "num_workers": 2, "role": "train", "file": str(script), "line": 2, **loader}
    row = {"time": 300 * MS, "batches": 10, "sized": 10 if size else 0, "bytes": 10 * size}
    run = make_run(
        steps=bursts(every),
        loaders=(given,),
        workers=worker_table({**row, "fetch": 10 * MS}),
        cwd=str(script.parent),
    )
    found = option(loader_prefetch, Facts(run))
    assert found is not None
    return found


def test_a_queue_that_bridges_the_pauses_of_the_workers(script: Path) -> None:
    found = prefetching(script, every=20)
    assert found.title == "prefetch_factor 2 -> 10"
    asked = {"prefetch_factor": 10}
    assert found.override == Override("DataLoader", asked, str(script), 2, "loader-prefetch")
    assert found.patch.after.endswith(b"num_workers=2, prefetch_factor=10)\n")
    assert found.risks == (Risk.MEMORY,)


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ({"every": 4}, 4),
        ({"every": 4, "prefetch_factor": 4}, 8),
        ({"every": 4, "num_workers": 1}, 4),
        ({"every": 48, "num_workers": 1}, 32),
        ({"size": 200 << 20}, 5),
    ],
)
def test_it_is_twice_as_long_at_least_and_fits_into_memory(
    script: Path, given: dict[str, Any], wanted: int
) -> None:
    found = prefetching(script, **given)
    assert found.override.arguments == {"prefetch_factor": wanted}


def test_where_no_pattern_is_known_it_is_four_times_as_long(script: Path) -> None:
    loader = {"num_workers": 2, "file": str(script), "line": 2}
    steps = joined(step_table(100, {"input_wait": 50, "forward": 50}))
    found = option(loader_prefetch, Facts(make_run(steps=steps, loaders=(loader,))))
    assert found.title == "prefetch_factor 2 -> 8"


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"num_workers": 0}, "no workers, and so no queue"),
        ({"num_workers": None}, "not known whether"),
        ({"prefetch_factor": 32}, "32 batches ahead"),
        ({"size": 600 << 20}, "the queue already holds 2.3 GiB"),
    ],
)
def test_a_queue_is_refused_with_the_reason(script: Path, given: dict[str, Any], why: str) -> None:
    found = prefetching(script, **given)
    assert (found.override, found.patch) == (None, None)
    assert why in found.why_not


def test_bursts_are_answered_by_it_and_a_slow_worker_is_not() -> None:
    facts = Facts(run_of(worker(0, busy=0.6, cpu=0.5), steps=bursts(4)))
    found = diagnosis(facts).top
    assert (found.rule, found.fixes) == ("input-bursty", ("loader-prefetch",))
    assert [one.title for one in options(found, facts)] == ["prefetch_factor 2 -> 4"]
    slow = diagnosis(Facts(run_of(worker(0, busy=0.1), worker(1, busy=0.9)))).top
    assert (slow.rule, slow.fixes) == ("input-uneven", ())
    uneven = {**worker(0, busy=0.5), "squares": 10 * 150_000**2}
    long_batches = diagnosis(Facts(run_of(uneven))).top
    assert long_batches.fixes == ("loader-prefetch",)


DATASET = "import torch\nfrom torch.utils.data import DataLoader, Dataset\n"
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
    taken, given = difference(one_thread, DATASET + source)
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
        changed(one_thread, DATASET + source)


def offered(script: Path, source: str) -> dict[str, FixOption]:
    script.write_text(DATASET + source.replace("  # here", ""))
    rows = [worker(at, cpu=0.5, delayed=0.4, others=1.0, threads=6 * 1000 * MS) for at in range(4)]
    run = run_of(*rows, cores=2, num_workers=4, file=str(script), line=6)
    facts = Facts(replace(run, manifest=replace(run.manifest, cwd=str(script.parent))))
    (finding,) = [one for one in diagnosis(facts).findings if one.rule == "workers-oversubscribed"]
    return {one.fix: one for one in options(finding, facts)}


def test_threads_are_set_at_the_line_of_the_script_or_advised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script = tmp_path / "train.py"
    monkeypatch.setattr(
        "perftui.facts.source.source_calls.own_files",
        lambda _: ((script, script.stat().st_mtime_ns),),
    )
    found = offered(script, START)["worker-threads"]
    assert (found.title, found.line) == ("threads of a worker 4 -> 1", 5)
    assert b"    torch.set_num_threads(1)\n" in found.patch.after
    found = offered(tmp_path / "train.py", "\n\n\nloader = DataLoader(data)\n")["worker-threads"]
    assert (found.patch, found.line) == (None, 6)
    assert "cv2.setNumThreads(0)" in found.advice
