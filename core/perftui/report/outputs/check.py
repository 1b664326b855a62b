"""What `check` prints as JSON."""

from __future__ import annotations

from typing import Annotated, Literal, TypedDict

from msgspec import Meta

from perftui.experiments.conditions import Difference
from perftui.report.check.model import State, Verdict
from perftui.report.outputs.changes import InForce
from perftui.report.outputs.common import Ratio, Schema, Share
from perftui.report.outputs.finding import SeverityName


class CheckRow(TypedDict):
    """One limit, and what was found."""

    name: Annotated[str, Meta(description="The key of a finding, `findings` or `step time`.")]
    found: str
    limit: str
    state: State
    fails: Annotated[
        bool, Meta(description="Whether it fails the whole; `inconclusive` decides if not certain.")
    ]
    message: str
    severity: Annotated[SeverityName | None, Meta(description="Of a finding.")]
    file: Annotated[
        str | None, Meta(description="Relative to the repository, if the file is in there.")
    ]
    line: int | None


class CheckOutput(TypedDict):
    """`perftui check`: whether a run or trace is within its limits."""

    schema: Schema
    path: str
    against: Annotated[str | None, Meta(description="The baseline; null if there is none.")]
    verdict: Verdict
    fail_on: Annotated[
        SeverityName | None,
        Meta(description="The least severity that fails; null if findings are not checked."),
    ]
    max_regression: Share
    inconclusive: Annotated[
        Literal["pass", "fail"], Meta(description="What a check counts as if it is not certain.")
    ]
    checks: list[CheckRow]
    ratio: Ratio
    differences: Annotated[
        list[Difference], Meta(description="What has changed since the baseline.")
    ]
    changes: InForce
