"""Loaders without workers: what goes from their calls with them, and why some keep theirs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.fix import option
from perftui.fixes.model import FixOption, Risk
from perftui.fixes.source.loader_arguments import WITHOUT_WORKERS
from perftui.fixes.source.patching import call_patch
from perftui.fixes.workers import NO_WORKERS
from perftui.run.manifest import Override
from perftui.script.program import PatchRefusedError
from tests.core.diagnosis.runs import MS, make_run, step_table, worker_table

HEAD = "from torch.utils.data import DataLoader\n"
NONE = {"num_workers": 0}


def without(path: Path, source: str, line: int = 2) -> str:
    path.write_text(HEAD + source)
    patch = call_patch(path, line, WITHOUT_WORKERS, NONE)
    assert patch.arguments == NONE
    return patch.after.decode().removeprefix(HEAD)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "train.py"


WRITTEN = {
    "nothing else": ("DataLoader(data, num_workers=2)", "DataLoader(data, num_workers=0)"),
    "workers that stay": (
        "DataLoader(data, num_workers=2, persistent_workers=True)",
        "DataLoader(data, num_workers=0)",
    ),
    "all that workers have": (
        "DataLoader(data, 4, num_workers=2, prefetch_factor=4, timeout=9, shuffle=True, "
        "multiprocessing_context='fork')",
        "DataLoader(data, 4, num_workers=0, shuffle=True)",
    ),
    "a variable": (
        "DataLoader(data, num_workers=2, prefetch_factor=ahead)",
        "DataLoader(data, num_workers=0)",
    ),
    "what is off stays": (
        "DataLoader(d, num_workers=2, persistent_workers=False, prefetch_factor=None, timeout=0)",
        "DataLoader(d, num_workers=0, persistent_workers=False, prefetch_factor=None, timeout=0)",
    ),
    "by position": (
        "DataLoader(data, 4, True, None, None, 2, persistent_workers=True)",
        "DataLoader(data, 4, True, None, None, 0)",
    ),
}


@pytest.mark.parametrize(("before", "after"), WRITTEN.values(), ids=WRITTEN)
def test_what_only_workers_can_have_goes_with_them(path: Path, before: str, after: str) -> None:
    assert without(path, f"loader = {before}\n") == f"loader = {after}\n"


def test_a_loader_that_is_made_in_a_loop_needs_no_workers(path: Path) -> None:
    source = "for epoch in range(9):\n    loader = DataLoader(data, num_workers=2)\n"
    assert "num_workers=0" in without(path, source, line=3)


def test_what_depends_on_the_number_of_workers_stays(path: Path) -> None:
    source = (
        "W = 2\nloader = DataLoader(data, num_workers=W, persistent_workers=W > 0, "
        "prefetch_factor=4 if W > 0 else None)\n"
    )
    assert without(path, source, line=3) == source.replace("W = 2", "W = 0")


def test_another_loader_may_have_its_workers_from_the_same_variable(path: Path) -> None:
    source = (
        "W = 2\nloader = DataLoader(data, num_workers=W, persistent_workers=True)\n"
        "other = DataLoader(held_out, num_workers=W{})\n"
    )
    assert without(path, source.format(""), line=3).startswith(
        "W = 0\nloader = DataLoader(data, num_workers=W)\n"
    )
    with pytest.raises(PatchRefusedError, match="line 4 reads W, too"):
        without(path, source.format(", prefetch_factor=4"), line=3)


REFUSED = {
    "a start of their own": ("num_workers=2, worker_init_fn=begin", "begin would not be called"),
    "computed": ("num_workers=2, multiprocessing_context=get_context()", "is computed"),
    "unpacked": ("num_workers=2, **more", r"may come from \*\*more"),
    "a dict": ("num_workers=2, **{'persistent_workers': True}", "comes from a dict"),
    "none": ("num_workers=0", "already has these arguments"),
}


@pytest.mark.parametrize(("given", "why"), REFUSED.values(), ids=REFUSED)
def test_what_is_not_certain_is_refused(path: Path, given: str, why: str) -> None:
    with pytest.raises(PatchRefusedError, match=why):
        without(path, f"loader = DataLoader(data, {given})\n")


def test_timeout_by_position_is_refused(path: Path) -> None:
    call = "DataLoader(d, 4, True, None, None, 2, None, False, False, 9)"
    with pytest.raises(PatchRefusedError, match="timeout is given by position"):
        without(path, f"loader = {call}\n")


def offered(script: Path, source: str, fetch: float = 1.0, line: int = 2, **more: Any) -> FixOption:
    """For a loader whose two workers take ``fetch`` ms for a batch, in steps of 10 ms."""
    script.write_text(HEAD + source)
    row = {"time": 300 * MS, "worker": 0, "batches": 100, "sized": 100, "elapsed": 300 * MS}
    loader = {"id": 1, "num_workers": 2, "role": "train", "file": str(script), "line": line, **more}
    command = more.pop("command", ("python", "train.py"))
    run = make_run(
        steps=step_table(100, {"input_wait": 6, "forward": 4}),
        loaders=(loader,),
        workers=worker_table({**row, "fetch": round(100 * fetch * MS)}),
        cwd=str(script.parent),
        command=command,
    )
    found = option(NO_WORKERS, Facts(run))
    assert found is not None
    return found


def test_no_workers_are_offered_as_override_and_as_patch(path: Path) -> None:
    source = "loader = DataLoader(data, num_workers=2, persistent_workers=True)\n"
    found = offered(path, source)
    assert found.title == "num_workers 2 -> 0"
    assert found.override == Override("DataLoader", NONE, str(path), 2, "loader-no-workers")
    assert found.patch is not None
    assert found.patch.after.decode() == f"{HEAD}loader = DataLoader(data, num_workers=0)\n"
    assert found.risks == (Risk.RANDOMNESS, Risk.ORDER)


OPTION = (
    "p.add_argument('--workers', type=int, default=2)\nargs = p.parse_args()\n"
    "loader = DataLoader(data, num_workers=args.workers{})\n"
)


def test_an_option_is_given_only_where_the_call_takes_no_workers(path: Path) -> None:
    found = offered(path, OPTION.format(""), line=4)
    assert found.argv == ("python", "train.py", "--workers", "0")
    with_more = offered(path, OPTION.format(", persistent_workers=True"), line=4)
    assert with_more.argv is None
    assert with_more.patch is not None
    assert b"default=0" in with_more.patch.after
    assert b"persistent" not in with_more.patch.after
    with_start = offered(path, OPTION.format(", worker_init_fn=begin"), line=4)
    assert (with_start.argv, with_start.patch) == (None, None)


@pytest.mark.parametrize(
    ("more", "why"),
    [
        ({"num_workers": 0}, "has no workers"),
        ({"num_workers": None}, "not known whether"),
        ({"is_iterable": True}, "another order"),
        ({"fetch": 6.0}, "without workers a step would take 10 ms instead of 10 ms"),
    ],
)
def test_workers_that_pay_stay(path: Path, more: dict[str, Any], why: str) -> None:
    found = offered(path, "loader = DataLoader(data, num_workers=2)\n", **more)
    assert (found.override, found.patch) == (None, None)
    assert why in found.why_not
