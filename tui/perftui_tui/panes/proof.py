"""What a trial of a fix came to, as it was saved, for a run that is opened again."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from perftui_tui.charts.interval import interval_rows
from perftui_tui.look.format import date_and_time
from perftui_tui.look.rows import Row, fold, row, wrap
from perftui_tui.panes.pairs import BAR_CELLS, STYLES, pair_table

if TYPE_CHECKING:
    from perftui.experiments.proof import Proof


def proof_rows(proof: Proof, cells: int) -> list[Row]:
    """The change and its gain, the interval on an axis, then each pair, the newest on top."""
    from perftui.report.trial import CONFIDENCE_TEXT

    rows = wrap(proof.title, cells, "bold")
    rows += wrap(proof.headline, cells, STYLES.get(proof.outcome.value, "bold"))
    if proof.ratio is not None and proof.low is not None and proof.high is not None:
        ratios = [pair.before_ns / pair.after_ns for pair in proof.pairs if pair.after_ns]
        interval = (proof.low, proof.ratio, proof.high)
        rows += interval_rows(ratios, interval, min(BAR_CELLS, cells))
        rows += wrap(CONFIDENCE_TEXT, cells, "dim")
    rows.append(row((f"measured {date_and_time(proof.measured_ns)}", "dim")))
    for note in proof.notes:
        rows += wrap(note, cells, "warn")
    return [*rows, (), *pair_table([(one.before_ns, one.after_ns) for one in proof.pairs])]


def earlier_rows(proofs: Mapping[str, Proof], cells: int) -> list[Row]:
    """What all trials but the newest came to, a row for each, the newer first; empty without."""
    newer_first = sorted(proofs.values(), key=lambda one: -one.measured_ns)[1:]
    rows = [row(("Earlier trials of this run", "bold"))] if newer_first else []
    for proof in newer_first:
        result = (proof.headline, STYLES.get(proof.outcome.value, "warn"))
        said = row(f"{date_and_time(proof.measured_ns)}  {proof.title}   ", result)
        rows += fold(said, cells)
    return rows


def newest(proofs: Mapping[str, Proof]) -> Proof | None:
    """The proof that was measured last; None where there is none."""
    return max(proofs.values(), key=lambda one: one.measured_ns, default=None)
