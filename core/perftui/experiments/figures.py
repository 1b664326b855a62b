"""The figures of one run that a comparison sets side by side."""

from __future__ import annotations

from dataclasses import dataclass

from perftui.facts.fact import Facts
from perftui.facts.loader import LoaderFacts, training_loader
from perftui.facts.machine import MachineFacts, machine_use
from perftui.facts.overrides import AppliedOverride, applied_overrides
from perftui.facts.settings import Settings, settings
from perftui.facts.step_breakdown import StepBreakdown
from perftui.facts.steps import micro_batches, step_breakdown, step_count
from perftui.run.manifest import Manifest, Status
from perftui.run.reader import RankSnapshot, RunSnapshot

BUSY_SHARE = 0.2
"""Other programs on this share of the cores take time from a training that uses them all."""

BUSY_PRESSURE = 10.0
"""Percent of stalled time (/proc/pressure/cpu). Above it the same change measured 9x faster that
measures 8 % slower on an idle machine. Below it no task had to wait for a core, whoever used the
others."""


@dataclass(frozen=True)
class RunFigures:
    """What one run measured."""

    manifest: Manifest
    share: StepBreakdown | None
    """Mean, budget, spread (p5 to p95) and throughput of the steady steps; None without any."""
    loader: LoaderFacts | None
    """The loader of the training with the arguments in force."""
    machine: MachineFacts
    ranks: int = 1
    """Training processes."""
    micro_batches: int | None = None
    """Median number of batches a steady step is made of; None where it was not recorded."""
    step_count: int | None = None
    """Steps from the first to the last, of the kind that is compared; None where some were lost."""
    settings: Settings | None = None
    overrides: tuple[AppliedOverride, ...] = ()
    """What became of each override of the manifest."""

    @property
    def steps(self) -> int:
        """Steady steps."""
        return self.share.count if self.share else 0

    @property
    def is_complete(self) -> bool:
        """Whether the script came to its end by itself, without a failure and without a limit."""
        manifest = self.manifest
        ended = manifest.status is Status.EXITED and manifest.exit_code == 0
        return ended and manifest.profile.get("max_steps") is None

    @property
    def busy_host(self) -> str:
        """Why the machine was too busy to measure on, empty where it was not."""
        other, cores = self.machine.other_cores, self.machine.cores
        pressure = self.machine.pressure
        if pressure is not None and pressure <= BUSY_PRESSURE:
            return ""
        if other is not None and cores:
            taken = other >= BUSY_SHARE * cores
            return f"other programs used {other:.1f} of {cores} cores" if taken else ""
        return "" if pressure is None else f"tasks waited for a core {pressure:.0f} % of the time"


def run_figures(run: RunSnapshot) -> RunFigures:
    """Figures of the steady training steps of ``run``."""
    return figures_of(run, Facts(run))


def figures_of(run: RunSnapshot, facts: Facts) -> RunFigures:
    """Figures of ``run`` out of what is known already, which takes long for a long one."""
    rank = facts.rank
    return RunFigures(
        run.manifest,
        step_breakdown(facts),
        training_loader(facts),
        machine_use(facts),
        run.world if rank else 1,
        micro_batches(facts),
        step_count(facts) if rank and _has_every_step(rank) else None,
        settings(rank) if rank else None,
        applied_overrides(run),
    )


def _has_every_step(rank: RankSnapshot) -> bool:
    """Whether no step was lost on its way from the training: they are numbered from 0 on."""
    count = len(rank.steps) + rank.downsampled.of().rows
    return len(rank.steps) > 0 and int(rank.steps["index"][-1]) + 1 == count
