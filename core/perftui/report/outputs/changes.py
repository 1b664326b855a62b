"""What `try`, `compare`, `apply` and `undo` print as JSON."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from perftui.experiments import comparison
from perftui.experiments.comparison import FigureChange, Whole, WorkChange
from perftui.experiments.conditions import Difference
from perftui.experiments.journal import Attempt
from perftui.experiments.trial_runs import Costs
from perftui.experiments.verdict import LossCheck, Outcome
from perftui.report.outputs.common import Command, Ns, Ratio, Schema
from perftui.report.outputs.finding import Numerics
from perftui.run.worker_curve import CurvePoint

Digest = Annotated[str | None, Meta(description="SHA-256 of the file, hexadecimal.")]
Notes = Annotated[
    list[str], Meta(description="Reasons not to rely on the result, and what was not checked.")
]
InForce = Annotated[list[str], Meta(description="Changed arguments in force: num_workers 0 -> 2.")]

Low = Annotated[
    float | None,
    Meta(description="Lower end of the interval of the ratio; null with fewer than 6 pairs."),
]
High = Annotated[float | None, Meta(description="Upper end of the interval of the ratio.")]

Comparable = Annotated[
    Literal["yes", "partly", "no"],
    Meta(
        description=(
            "Whether machine, versions, command and number of training processes allow the "
            "comparison, as far as they are known. Another commit does not limit it."
        )
    ),
]

Advice = Annotated[
    str | None, Meta(description="What to write by hand, where perftui apply cannot.")
]


Workers = Annotated[
    list[CurvePoint],
    Meta(
        description=(
            "Step times with several numbers of loader workers, one run each; the best was "
            "tried. Empty for other fixes, and if the number was already known."
        )
    ),
]


class PairOutput(TypedDict):
    """Two runs, without the fix and with it."""

    before_ns: Ns
    after_ns: Ns
    ratio: float
    runs: list[str]


class TrialOutput(TypedDict):
    """`perftui try`: the gain of a fix, from pairs of runs with it and without."""

    schema: Schema
    fix: str
    title: str
    run: Annotated[str, Meta(description="Identifier of the run that was repeated.")]
    outcome: Outcome
    headline: str
    ratio: Ratio
    low: Low
    high: High
    noise: Annotated[
        float | None,
        Meta(description="By how much two identical runs or blocks differ here, as a share."),
    ]
    block_steps: Annotated[
        int | None,
        Meta(description="Steps in a block, if pairs are blocks of a run; null if pairs are runs."),
    ]
    pairs: list[PairOutput]
    workers: Workers
    changes: InForce
    risks: list[str]
    changes_numerics: Numerics
    costs: Costs
    losses: LossCheck
    notes: Notes
    advice: Advice
    next: Annotated[
        list[str], Meta(description="The exact command to run next; empty if there is none.")
    ]


class TuningOutput(TypedDict):
    """`perftui tune`: all fixes tried one by one, and what was kept."""

    schema: Schema
    run: str
    outcome: Annotated[Outcome, Meta(description="All kept fixes together.")]
    headline: str
    ratio: Ratio
    low: Low
    high: High
    kept: list[Attempt]
    not_kept: list[Attempt]
    base: Annotated[str, Meta(description="Directory of the run recorded with all kept fixes.")]
    diff: Annotated[
        str | None, Meta(description="Unified diff of what was written; null if nothing was.")
    ]
    undo: Annotated[list[list[str]], Meta(description="The commands that undo it, in this order.")]
    losses: LossCheck | None


class RepeatsOutput(TypedDict):
    """Several runs on each side of a comparison, in the order of their starts."""

    before: list[str]
    after: list[str]
    pairs: Annotated[list[float], Meta(description="Step before over step after of each pair.")]


class ComparisonOutput(TypedDict):
    """`perftui compare`: one run or trace against another."""

    schema: Schema
    outcome: comparison.Verdict
    ratio: Ratio
    low: Low
    high: High
    repeats: Annotated[
        RepeatsOutput | None, Meta(description="Null if there is one run or trace on each side.")
    ]
    reason: str
    comparable: Comparable
    differences: Annotated[
        list[Difference],
        Meta(description="Of two runs, those that limit the comparison most first."),
    ]
    steps_of: Annotated[
        Literal["run", "trace"],
        Meta(description="Whose steps are compared: for two runs, those of the training thread."),
    ]
    parts_ns: Annotated[
        dict[str, tuple[int, int]],
        Meta(description="Mean time of each part of the step, before and after."),
    ]
    table_steps: Annotated[
        tuple[int, int] | None,
        Meta(
            description=(
                "Steps in which operators and kernels were profiled; 0 for all of a trace that "
                "marks no steps; null if a side has no trace."
            )
        ),
    ]
    operators: Annotated[
        list[WorkChange],
        Meta(
            description=(
                "For the mean step, the most changed first; a side with 0 calls does not have it."
            )
        ),
    ]
    operators_by: Annotated[
        Literal["name", "name and shapes"],
        Meta(description="By shapes, which follow the name, if both sides have recorded them."),
    ]
    operators_of: Annotated[
        Whole | None, Meta(description="What the CPU times of `operators` sum to.")
    ]
    kernels: Annotated[
        list[WorkChange], Meta(description="Kernels, copies and memsets of the mean step.")
    ]
    kernels_of: Annotated[
        Whole | None,
        Meta(
            description=(
                "What the times of `kernels` sum to, less what was counted twice because kernels "
                "ran at the same time."
            )
        ),
    ]
    figures: Annotated[
        list[FigureChange],
        Meta(description="Memory, data loader and machine; null where a side does not know it."),
    ]
    changes: InForce
    notes: Notes
    next: Command


class ApplyOutput(TypedDict):
    """`perftui apply`: a fix written to the source."""

    schema: Schema
    fix: str
    title: str
    run: str
    outcome: Literal["written", "dry run", "written already"]
    file: str | None
    diff: Annotated[str | None, Meta(description="Unified diff; null if there is nothing to do.")]
    before_sha256: Digest
    after_sha256: Digest
    risks: list[str]
    changes_numerics: Numerics
    next: Command


class UndoOutput(TypedDict):
    """`perftui undo`: the source as it was before the last fix."""

    schema: Schema
    fix: Annotated[str | None, Meta(description="Null if an older version wrote it.")]
    title: str
    outcome: Literal["taken back", "dry run"]
    file: str
    diff: str
    before_sha256: Digest
    after_sha256: Digest
    next: Command


class BriefTrial(TypedDict):
    """`perftui try --json --brief`: at most 2,000 bytes."""

    schema: Schema
    fix: str
    outcome: Outcome
    headline: str
    ratio: Ratio
    low: float | None
    high: float | None
    noise: float | None
    pairs: Annotated[int, Meta(description="Number of pairs of runs.")]
    workers: Workers
    changes: InForce
    risks: list[str]
    changes_numerics: Numerics
    losses: LossCheck
    notes: Notes
    advice: Advice
    next: list[str]


class BriefComparison(TypedDict):
    """`perftui compare --json --brief`: at most 2,000 bytes."""

    schema: Schema
    outcome: comparison.Verdict
    ratio: Ratio
    low: Low
    high: High
    reason: str
    comparable: Comparable
    differences: Annotated[
        list[str], Meta(description="Of two runs, in words: torch 2.8.0 -> 2.9.1.")
    ]
    largest_change: Annotated[
        str | None, Meta(description="The phase of the step that changed most.")
    ]
    largest_change_ns: Annotated[int | None, Meta(description="By how much; below 0 is less time.")]
    changes: InForce
    notes: Notes
    next: Command
