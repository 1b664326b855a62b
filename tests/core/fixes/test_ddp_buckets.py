"""``ddp-buckets``: where it is offered, and what it would write."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftui.facts.fact import Facts
from perftui.fixes.distributed import BUCKETS
from perftui.fixes.fix import option
from perftui.fixes.model import Risk
from tests.core.diagnosis.runs import ON_GPU, Events, make_run
from tests.core.diagnosis.test_buckets import MIB, reducing

HEAD = "from torch.nn.parallel import DistributedDataParallel\n"
ALL_IN_ONE = "bucket_cap_mb=1000"


def wrapped(*caps: Any) -> Events:
    """What a run notes of models that are wrapped with such caps, in bytes."""
    arguments = [{} if cap is None else {"bucket_bytes_cap": cap} for cap in caps]
    name = "DistributedDataParallel"
    rows = [{"name": name, "count": 1, "arguments": given} for given in arguments]
    return (("settings", {"wrappers": rows}),)


def facts_of(
    folder: Path,
    given: str,
    events: Events = (),
    size: int = 100 * MIB,
    command: tuple[str, ...] = ("torchrun", "--nproc-per-node", "2", "train.py"),
) -> Facts:
    """A run of a script that wraps its model so, and a window in which ``size`` bytes of gradients
    are reduced at once."""
    (folder / "train.py").write_text(f"{HEAD}model = DistributedDataParallel(net, {given})\n")
    run = make_run(cwd=str(folder), command=command, events=events, **ON_GPU)
    return Facts(run, reducing(size).analysis())


@pytest.mark.parametrize(
    "events",
    [(), wrapped(None), wrapped(1000 * MIB), wrapped(25 * MIB + 1)],
    ids=["no note", "unknown cap", "a large cap", "one just above the usual"],
)
def test_it_can_be_tried_and_written(tmp_path: Path, events: Events) -> None:
    found = option(BUCKETS, facts_of(tmp_path, ALL_IN_ONE, events))
    assert found is not None
    assert found.patch is not None
    assert found.patch.after.decode() == f"{HEAD}model = DistributedDataParallel(net)\n"
    assert (found.override, found.is_triable, found.why_not) == (None, True, "")
    assert (found.title, found.risks) == ("buckets of 25 MiB", (Risk.NUMERICS,))


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ("device_ids=[0]", "the call gives no bucket_cap_mb"),
        ("bucket_cap_mb=args.cap", "bucket_cap_mb=args.cap is not a literal"),
    ],
)
def test_where_it_cannot_be_written_it_says_why(tmp_path: Path, given: str, why: str) -> None:
    found = option(BUCKETS, facts_of(tmp_path, given, wrapped(1000 * MIB)))
    assert found is not None
    assert (found.patch, found.is_triable, found.why_not) == (None, False, why)
    assert found.advice == "DistributedDataParallel(...) without bucket_cap_mb"


def test_a_run_with_the_usual_cap_is_not_advised_to_lower_it(tmp_path: Path) -> None:
    """One parameter that is larger than a bucket is reduced at once, whatever the cap is."""
    for cap in (25 * MIB, 1 * MIB):
        assert option(BUCKETS, facts_of(tmp_path, ALL_IN_ONE, wrapped(cap))) is None


def test_without_the_finding_it_is_not_offered(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, ALL_IN_ONE, wrapped(1000 * MIB), size=49 * MIB)
    assert option(BUCKETS, facts) is None


def test_a_run_of_no_known_script_is_not_offered_it(tmp_path: Path) -> None:
    facts = facts_of(tmp_path, ALL_IN_ONE, command=("accelerate", "launch", "train.py"))
    assert option(BUCKETS, facts) is None
