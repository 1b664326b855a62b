"""Workers of the data loader that die, by what the output says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.symptoms.data_loader.workers import FIRST_BYTES
from perftui.facts.fact import Facts
from perftui.run.manifest import Status
from tests.core.diagnosis.runs import make_run
from tests.core.diagnosis.stories import found

BUS = (
    b"RuntimeError: DataLoader worker (pid 4711) is killed by signal: Bus error. It is possible "
    b"that dataloader's workers are out of shared memory. Please try to raise your shared memory "
    b"limit.\r\n"
)
ENDED = b"RuntimeError: DataLoader worker (pid(s) 7, 9) exited unexpectedly\n"
KILLED = b"RuntimeError: DataLoader worker (pid 12) is killed by signal: Killed. \n"


def died(root: Path, output: bytes | None, **run: Any) -> Finding | None:
    if output is not None:
        (root / "output.log").write_bytes(output)
    return found(diagnosis(Facts(make_run(root=root, **run))), "workers-died")


def test_a_worker_without_shared_memory_is_reported_with_torchs_words(tmp_path: Path) -> None:
    one = died(tmp_path, b"epoch 0\n" + ENDED + BUS * 2)
    assert one is not None
    assert one.sentence == (
        'A worker of the data loader failed ("DataLoader worker (pid 4711) is killed by signal: '
        'Bus error"): it ran out of shared memory, through which workers hand over batches.'
    )
    assert (one.rule, one.severity, one.cost_ns, one.facts[0].value) == (
        "workers-died",
        Severity.INFO,
        0,
        2,
    )


@pytest.mark.parametrize(
    ("output", "why"),
    [
        (KILLED, "a signal killed it"),
        (ENDED, "it exited by itself"),
        (b"unable to open shared memory object </torch_1_2> in read-write mode: No", "shared mem"),
        (b"unable to mmap 512 bytes from file </torch_7_8>: Cannot allocate\n", "shared memory"),
        (
            b"RuntimeError: Too many open files. Communication with the workers is no\n",
            "an open file",
        ),
    ],
)
def test_each_kind_of_end_has_its_cause(tmp_path: Path, output: bytes, why: str) -> None:
    one = died(tmp_path, output)
    assert one is not None
    assert why in one.sentence


def test_the_end_of_a_long_output_is_read(tmp_path: Path) -> None:
    assert died(tmp_path, b"loss 0.3\n" * (FIRST_BYTES // 4) + BUS) is not None


def test_who_ends_the_training_ends_its_workers(tmp_path: Path) -> None:
    assert died(tmp_path, ENDED, status=Status.KILLED) is None
    (tmp_path / "b").mkdir()
    ended = b"DataLoader worker (pid 12) is killed by signal: Terminated. \n"
    assert died(tmp_path / "b", ended) is None


def test_other_output_and_none_say_nothing(tmp_path: Path) -> None:
    assert died(tmp_path, b"2 workers, shared memory, bus error rate 0.1\n") is None
    assert died(tmp_path / "gone", None) is None
