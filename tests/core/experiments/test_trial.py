"""Trials by blocks within runs, and which numbers of loader workers they run with."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from perftui.experiments import trial as trials
from perftui.experiments.trial import (
    Block,
    BlockPlan,
    BlockRun,
    block_pairs,
    block_plan,
    blocks,
    counts_to_try,
    mean_step,
)
from perftui.experiments.trial_runs import Arm, Progress, TrialRun, TrialSetup
from perftui.experiments.trial_verdict import Agreement, Outcome
from perftui.facts.cpu.machine import MachineFacts, machine_use
from perftui.facts.data_loader.loader import (
    CurvePoint,
    LoaderFacts,
    WorkerCurve,
    measured_workers,
    training_loader,
)
from perftui.facts.fact import Facts
from perftui.facts.step.steps import whole_training
from perftui.fixes.option import FixOption, Risk
from perftui.fixes.workers import loader_workers, with_workers
from perftui.run.manifest import Override
from tests.core.diagnosis.runs import MS, joined, make_run, step_table
from tests.facts_given import facts_with

SWITCH = FixOption(
    "threads",
    "threads 1 -> 2",
    "",
    (Risk.NUMERICS,),
    override=Override("switch", {"threads": 2}, fix="threads"),
)


SETUP = TrialSetup(Path("trials"), 230, threading.Event())


def noted(*flips: tuple[int, bool]) -> tuple[tuple[str, dict[str, Any]], ...]:
    return tuple(("block", {"step": step, "is_changed": changed}) for step, changed in flips)


def test_a_block_ends_before_the_step_of_the_next_flip() -> None:
    flips = noted((9, False), (20, True), (30, True), (40, False))
    assert blocks(Facts(make_run(events=flips))) == (
        Block(False, 9, 20),
        Block(True, 20, 30),
        Block(True, 30, 40),
    )


def test_a_run_that_flips_nothing_has_no_blocks() -> None:
    assert blocks(Facts(make_run())) == ()


def long_enough(loader: LoaderFacts | None = None, length: int | None = None) -> Facts:
    return facts_with(Facts(make_run()), {training_loader: loader, whole_training: length})


OTHER_FIX = LoaderFacts(num_workers=2, prefetch_factor=3, file="train.py", line=1)


@pytest.mark.parametrize(
    ("steps", "loader", "plan"),
    [
        (230, None, BlockPlan(3, 33, 4)),
        (86, None, BlockPlan(3, 9, 4)),
        (85, None, BlockPlan(2, 13, 4)),
        (50, None, BlockPlan(1, 9, 4)),
        (49, None, None),
        # Batches that were fetched ahead are those of the block before.
        (230, OTHER_FIX, BlockPlan(3, 33, 10)),
        (80, OTHER_FIX, BlockPlan(1, 24, 10)),
    ],
)
def test_blocks_fit_into_the_steps_of_a_run(
    steps: int, loader: LoaderFacts | None, plan: BlockPlan | None
) -> None:
    assert block_plan(long_enough(loader), SWITCH, steps) == plan


def test_there_are_none_where_they_cannot_be() -> None:
    for option in (
        replace(SWITCH, override=None),
        replace(SWITCH, override=Override("DataLoader", {"num_workers": 2})),
    ):
        assert block_plan(long_enough(), option, 230) is None
    assert block_plan(long_enough(length=229), SWITCH, 230) is None


def test_the_first_steps_of_a_block_do_not_count() -> None:
    steps = joined(step_table(4, {"forward": 90}), step_table(6, {"forward": 10}))
    facts = Facts(make_run(steps=steps))
    assert mean_step(facts, Block(True, 1, 10), 3) == 10 * MS


def test_what_comes_between_training_steps_counts() -> None:
    """An evaluation is slowed or not, too."""
    steps = joined(
        step_table(7, {"forward": 10}),
        step_table(1, {"forward": 30}, kind="eval"),
        step_table(1, {"forward": 10}),
    )
    facts = Facts(make_run(steps=steps))
    assert mean_step(facts, Block(True, 0, 9), 2) == (6 * 10 + 30) * MS // 6


@pytest.mark.parametrize("block", [Block(True, 30, 41), Block(True, 30, 37)])
def test_a_block_that_is_not_whole_or_too_short_tells_nothing(block: Block) -> None:
    assert mean_step(Facts(make_run(count=40)), block, 3) is None


@dataclass
class Played:
    """Runs whose blocks take 10 ms, or ``ratio`` times less where changed."""

    ratio: float = 2.0
    losses: Sequence[tuple[float, ...]] = ((1.0, 0.5),)
    """Of the runs that begin unchanged, then of those that begin changed; one for both."""
    fails_after: int = 99
    made: int = 0
    repeated: int = 0

    def block_run(
        self, _run: object, _option: object, plan: BlockPlan, arm: Arm, setup: TrialSetup
    ) -> BlockRun | None:
        if self.made == self.fails_after:
            return None
        self.made += 1
        own = setup.directory / str(self.made)
        pattern = [Arm.BEFORE, Arm.AFTER, Arm.AFTER, Arm.BEFORE] * plan.pairs
        if arm is Arm.AFTER:
            pattern = [Arm.AFTER, Arm.BEFORE, Arm.BEFORE, Arm.AFTER] * plan.pairs
        times = {Arm.BEFORE: 10 * MS, Arm.AFTER: round(10 * MS / self.ratio)}
        made = tuple(TrialRun(one, own, times[one]) for one in pattern[: 2 * plan.pairs])
        return BlockRun(TrialRun(arm, own, 10 * MS, self.losses[self._of(arm)]), made)

    def measured(self, _: TrialSetup, arm: Arm, *__: object) -> TrialRun:
        self.repeated += 1
        return TrialRun(arm, Path("again"), 10 * MS, self.losses[self._of(arm)])

    def _of(self, arm: Arm) -> int:
        return 0 if arm is Arm.BEFORE else len(self.losses) - 1


def played(
    monkeypatch: pytest.MonkeyPatch, runs: Played, pairs: int = 3, option: FixOption = SWITCH
) -> list[Progress]:
    monkeypatch.setattr(trials, "block_run", runs.block_run)
    monkeypatch.setattr(TrialSetup, "measure", lambda *of: runs.measured(*of))
    monkeypatch.setattr(trials, "facts_of", lambda _: Facts(make_run()))
    return list(block_pairs(make_run(), option, BlockPlan(pairs, 30, 3), SETUP, most_pairs=14))


def test_two_runs_of_three_pairs_tell(monkeypatch: pytest.MonkeyPatch) -> None:
    runs = Played(ratio=2.0)
    told = played(monkeypatch, runs)
    assert [len(one.pairs) for one in told] == [1, 2, 3, 4, 5, 6]
    assert runs.made == 2
    last = told[-1]
    assert (last.verdict.outcome, last.verdict.headline) == (
        Outcome.FASTER,
        "2.00x faster (2.00 to 2.00)",
    )
    assert (last.block_steps, last.losses.agreement) == (30, Agreement.SAME)
    assert runs.repeated == 0


def test_a_switch_that_gains_nothing_is_no_difference_after_six_pairs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert played(monkeypatch, Played(ratio=1.0))[-1].verdict.outcome is Outcome.NO_DIFFERENCE
    runs = Played(ratio=0.5)
    told = played(monkeypatch, runs, pairs=1)
    assert runs.made == 6
    assert told[-1].verdict.outcome is Outcome.SLOWER


def test_losses_that_round_otherwise_are_held_against_a_run_more(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Played(losses=((1.0, 0.5), (1.0, 0.5001)))
    last = played(monkeypatch, runs)[-1]
    assert (runs.repeated, last.losses.agreement) == (1, Agreement.ROUNDED)
    assert last.verdict.outcome is Outcome.FASTER


def test_a_switch_that_does_not_reach_the_training_has_no_effect(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where the newest run is one without it, for the losses."""
    asked: list[str] = []

    def missed(facts: Facts) -> str:
        asked.append(facts.run.root.name if facts.run else "")
        return "threads=2 was refused" if len(asked) > 3 else ""

    monkeypatch.setattr(trials, "missed", missed)
    monkeypatch.setattr(trials, "block_run", Played(losses=((1.0,), (1.01,))).block_run)
    again = Played(losses=((1.0,), (1.01,)))
    monkeypatch.setattr(TrialSetup, "measure", lambda *of: again.measured(*of))
    monkeypatch.setattr(trials, "facts_of", lambda root: Facts(make_run(root=root)))
    told = list(block_pairs(make_run(), SWITCH, BlockPlan(3, 30, 4), SETUP, 14))
    assert told[-1].verdict.headline == "no effect: threads=2 was refused"
    assert asked == ["1", "1", "1", "2"]


def test_losses_that_differ_or_were_not_seen_do_not_compare(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    runs = Played(losses=((1.0, 0.5), (1.0, 0.7)))
    last = played(monkeypatch, runs)[-1]
    assert last.verdict.outcome is Outcome.NOT_COMPARABLE
    assert (runs.made, runs.repeated) == (2, 1)
    runs = Played(losses=((),))
    last = played(monkeypatch, runs)[-1]
    assert (runs.repeated, last.losses.agreement) == (0, Agreement.NOT_CHECKED)
    assert last.verdict.outcome is Outcome.FASTER


@pytest.mark.parametrize(
    ("blocks_tell", "how"), [(True, [30] * 6), (False, [30] * 6 + [None]), (None, [None])]
)
def test_pairs_of_runs_tell_where_blocks_do_not(
    monkeypatch: pytest.MonkeyPatch, blocks_tell: bool | None, how: list[int | None]
) -> None:
    """``None``: there can be no blocks."""
    clear, unclear = (played(monkeypatch, Played(ratio=ratio)) for ratio in (2.0, 1.0))
    unclear = [replace(one, verdict=clear[0].verdict) for one in unclear]
    plan = None if blocks_tell is None else BlockPlan(3, 30, 4)
    monkeypatch.setattr(trials, "facts_of", lambda _: Facts(make_run()))
    monkeypatch.setattr(trials, "block_plan", lambda *_: plan)
    monkeypatch.setattr(trials, "block_pairs", lambda *_: clear if blocks_tell else unclear)
    monkeypatch.setattr(trials, "paired_runs", lambda *_: [replace(clear[0], block_steps=None)])
    made = trials.trial(make_run(), SWITCH, SETUP)
    assert [one.block_steps for one in made] == how


def test_where_runs_cannot_be_made_so_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    assert played(monkeypatch, Played(fails_after=0)) == []
    told = played(monkeypatch, Played(fails_after=1))
    assert [one.verdict.outcome for one in told] == [Outcome.INCONCLUSIVE] * 3


def facts(workers: int | None, cores: int | None, **loader: object) -> Facts:
    given = {"num_workers": workers, "file": "train.py", "line": 3, **loader}
    return facts_with(
        Facts(None),
        {
            training_loader: LoaderFacts(**given),  # type: ignore[arg-type] # plain fields
            machine_use: MachineFacts(cores=cores),
        },
    )


@pytest.mark.parametrize(
    ("workers", "cores", "counts"),
    [
        (0, 16, (1, 2, 4, 8, 16)),
        (2, 16, (4, 8, 16)),
        (0, 12, (1, 2, 4, 8)),
        (None, 4, (1, 2, 4)),
        (0, 1, ()),
        (1, 2, ()),
        (0, None, ()),
    ],
)
def test_they_double_up_to_the_cores(
    workers: int | None, cores: int | None, counts: tuple[int, ...]
) -> None:
    assert counts_to_try(facts(workers, cores)) == counts


def test_there_are_none_without_a_loader() -> None:
    assert counts_to_try(facts_with(Facts(None), {training_loader: None})) == ()


def test_the_fix_takes_the_number_that_was_measured_or_asked_for() -> None:
    known = facts(0, 16)
    curve = WorkerCurve((CurvePoint(1, 30), CurvePoint(2, 16), CurvePoint(4, 15)))
    known.worked_out[measured_workers] = curve
    change = loader_workers.change(known)
    assert (change.title, change.why_not) == ("num_workers 0 -> 4", "")
    option = with_workers(facts(0, 16), 8)
    assert option.override.arguments == {"num_workers": 8, "persistent_workers": True}
    option = with_workers(facts(0, 16, holds_files=True), 8)
    assert option.override is None
    assert "open files" in option.why_not
