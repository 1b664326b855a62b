"""Arguments of a data loader: a longer queue."""

from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.facts.fact import Facts
from perftui.fixes.catalogue import options
from perftui.fixes.data_loader import loader_prefetch
from perftui.fixes.fix import option
from perftui.fixes.option import FixOption, Risk
from perftui.run.manifest import Override
from tests.core.diagnosis.runs import MS, joined, make_run, step_table, worker_table
from tests.core.diagnosis.test_input_wait import bursts, run_of, worker

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
