"""The table of loops: what is recorded of each kind, and that none notices.

In other files: the same loop with its data fetched in workers and by hand, in a real run
(``e2e/test_unharmed.py``), seven ways to compile (``core/agent/test_agent_training.py``), loops
that hide their steps (``core/agent/test_agent_odd_loops.py``)."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

import pytest

from perftui.run.columns import PHASES
from tests.capture.watched import (
    DEVICE,
    HERE,
    Ended,
    Row,
    ended,
    ended_with_agent,
    steps_in,
    together,
    windows_in,
)

pytestmark = pytest.mark.subprocess

STEPS = 24
"""As in ``loop_parts.py``, whose import would bring torch in here."""

PARTS = 1 if DEVICE == "cpu" else 6
"""Loops that run at a time: each process that uses CUDA takes seconds to begin."""

MODEL = frozenset({"forward", "backward", "optimizer"})
LOADED = MODEL | {"input_wait"}
WHOLE = ((STEPS, 1),)


@dataclass(frozen=True)
class Loop:
    """What a loop must leave: ``kinds`` and ``micro`` are runs of (number of steps, value)."""

    name: str
    micro: tuple[tuple[int, int], ...] = WHOLE
    phases: frozenset[str] = LOADED
    """Those that every step has."""
    kinds: tuple[tuple[int, str], ...] = ((STEPS, "train"),)
    needs: str = "torch"


LOOPS = (
    Loop("plain"),
    Loop("fork_workers", phases=MODEL),
    Loop("spawn_workers", phases=MODEL),
    Loop("persistent_workers", phases=MODEL),
    Loop("workers_each_epoch", phases=MODEL),
    Loop("iterable"),
    Loop("iterable_workers", phases=MODEL),
    Loop("no_loader", phases=MODEL),
    Loop("accumulation", ((STEPS // 4, 4),), kinds=((STEPS // 4, "train"),)),
    Loop("accumulation_without_loader", ((STEPS // 3, 3),), MODEL, ((STEPS // 3, "train"),)),
    Loop("pinned_pictures", phases=MODEL),
    Loop("scaled_transformer"),
    Loop("scaler", phases=LOADED - {"optimizer"}),
    Loop("scaler_without_loader", phases=MODEL - {"optimizer"}),
    Loop("adversarial"),
    Loop("adversarial_without_loader", phases=frozenset()),
    Loop("checkpointed", phases=MODEL),
    Loop("closure"),
    Loop("inference", phases=frozenset({"input_wait", "forward"}), kinds=((STEPS, "infer"),)),
    Loop("decoding", phases=frozenset({"forward"}), kinds=((STEPS, "infer"),)),
    Loop(
        "evaluation",
        phases=frozenset({"input_wait", "forward"}),
        kinds=((STEPS // 4, "train"), (STEPS // 4, "eval")) * 2,
    ),
    Loop("compiled"),
    Loop("fused"),
    Loop("own_optimizer"),
    Loop("by_hand", phases=LOADED - {"optimizer"}),
    Loop("by_hand_without_loader", phases=MODEL - {"optimizer"}),
    Loop("by_hand_beside_an_unused_optimizer", phases=LOADED - {"optimizer"}),
    Loop("in_backward"),
    Loop("own_profiler"),
    Loop("own_ranges", ((80, 1),), kinds=((80, "train"),)),
    Loop("in_a_thread"),
    Loop("in_a_thread_after_a_call", phases=frozenset({"optimizer"})),
    Loop("fetched_in_a_thread", phases=frozenset({"optimizer"})),
    Loop("fabric", needs="lightning"),
    Loop(
        "lightning",
        ((STEPS + STEPS // 2, 1),),
        frozenset({"forward"}),
        ((STEPS, "train"), (STEPS // 2, "eval")),
        "lightning",
    ),
    Loop(
        "lightning_accumulation",
        ((STEPS // 4, 4), (STEPS // 2, 1)),
        frozenset({"forward"}),
        ((STEPS // 4, "train"), (STEPS // 2, "eval")),
        "lightning",
    ),
    Loop("accelerate", phases=MODEL, needs="accelerate"),
    Loop(
        "accelerate_accumulation", ((STEPS // 4, 4),), MODEL, ((STEPS // 4, "train"),), "accelerate"
    ),
    Loop(
        "hugging_face",
        ((STEPS + STEPS // 2, 1),),
        frozenset({"forward"}),
        ((STEPS, "train"), (STEPS // 2, "eval")),
        "transformers",
    ),
    Loop(
        "hugging_face_accumulation",
        ((STEPS // 4, 4), (STEPS // 2, 1)),
        frozenset({"forward"}),
        ((STEPS // 4, "train"), (STEPS // 2, "eval")),
        "transformers",
    ),
)


KNOWN = frozenset(loop.name for loop in LOOPS)


@dataclass(frozen=True)
class Outcomes:
    """All loops, run once without us and once with the agent."""

    alone: Ended
    watched: Ended
    spool: Path

    def steps(self, name: str) -> list[Row]:
        pid = next(pid for one, pid, _ in _ends(self.watched) if one == name)
        return steps_in(self.spool, pid)


def _ends(run: Ended) -> list[tuple[str, int, str]]:
    """Name, process and end of each loop."""
    found = [line.split(maxsplit=2) for line in run.out.splitlines()]
    return [(one[0], int(one[1]), one[2]) for one in found if one and one[0] in KNOWN]


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> Outcomes:
    names = [loop.name for loop in LOOPS if find_spec(loop.needs)]
    here = tmp_path_factory.mktemp("loops")
    spool = here / "spool"

    def alone(part: int) -> Ended:
        return ended(command(part), here)

    def watched(part: int) -> Ended:
        return ended_with_agent(command(part), here, spool)

    def command(part: int) -> tuple[str, ...]:
        return (sys.executable, str(HERE / "run_loops.py"), *names[part::PARTS])

    with ThreadPoolExecutor(PARTS) as pool:
        return Outcomes(
            together(pool.map(alone, range(PARTS))),
            together(pool.map(watched, range(PARTS))),
            spool,
        )


def _lengthened(runs: tuple[tuple[int, object], ...]) -> list[object]:
    return [value for number, value in runs for _ in range(number)]


@pytest.mark.parametrize("loop", LOOPS, ids=[loop.name for loop in LOOPS])
def test_each_step_is_reported_with_its_phases(loop: Loop, outcomes: Outcomes) -> None:
    pytest.importorskip(loop.needs)
    steps = outcomes.steps(loop.name)

    assert [step["kind"] for step in steps] == _lengthened(loop.kinds)
    assert [step["index"] for step in steps] == list(range(len(steps)))
    assert [step["micro_batches"] for step in steps] == _lengthened(loop.micro)
    for step in steps:
        assert sum(step[phase] for phase in PHASES) == step["duration"]
        assert {phase for phase in loop.phases if step[phase] <= 0} == set()


def test_results_and_random_state_are_those_without_us(outcomes: Outcomes) -> None:
    def results(run: Ended) -> Mapping[str, str]:
        return {name: end for name, _, end in _ends(run)}

    assert outcomes.alone.code == outcomes.watched.code == 0
    assert results(outcomes.watched) == results(outcomes.alone)
    assert [end for end in results(outcomes.alone).values() if "failed" in end] == []


def _printed(run: Ended) -> dict[str, list[str]]:
    """What each loop printed before its end; frameworks print how long it took."""
    frameworks = {loop.name for loop in LOOPS if loop.needs != "torch"}
    printed: dict[str, list[str]] = {}
    lines: list[str] = []
    for line in run.out.splitlines():
        name = line.partition(" ")[0]
        if name not in KNOWN:
            lines.append(line)
            continue
        masked = [re.sub(r"\d[\d.]*(e[+-]\d+)?", "#", one) for one in lines]
        printed[name] = masked if name in frameworks else lines
        lines = []
    return printed


def test_output_is_that_without_us(outcomes: Outcomes) -> None:
    printed = _printed(outcomes.watched)

    assert printed == _printed(outcomes.alone)
    assert printed["own_profiler"] == ["[6]", "[6]"]


def test_no_worker_and_no_helper_is_recorded(outcomes: Outcomes) -> None:
    rings = {int(path.name[5:]) for path in outcomes.spool.glob("ring-*")}
    assert rings == {pid for _, pid, _ in _ends(outcomes.watched)}


def test_ranges_of_the_script_are_in_the_window(outcomes: Outcomes) -> None:
    pid = next(pid for name, pid, _ in _ends(outcomes.watched) if name == "own_ranges")
    window = next(path for path in windows_in(outcomes.spool) if f"-{pid}-" in path.name)
    events = json.loads(window.read_bytes())["traceEvents"]
    # torch shows each range a second time where its kernels ran.
    names = [event["name"] for event in events if event.get("cat") != "gpu_user_annotation"]
    steps = sum(name.startswith("ProfilerStep#") for name in names)
    assert names.count("the script's own") == names.count("perftui::optimizer") == steps
