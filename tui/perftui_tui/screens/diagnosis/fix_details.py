"""The fixes of a finding: what each gains, at which risk, and what proves it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from perftui import format as fmt
from perftui.diagnosis.model import Finding
from perftui.experiments.verdict import CONFIDENCE
from perftui.fixes.model import FixOption
from perftui_tui.dialogs.choice import Prose, labelled
from perftui_tui.dialogs.experiment import diff_rows, risk
from perftui_tui.keys.keymap import hint
from perftui_tui.look.format import date_and_time
from perftui_tui.look.rows import Row, Span, crop, fold, row, with_fitting, wrap
from perftui_tui.panes.verdict import proof_style
from perftui_tui.reading.snapshot import Snapshot

if TYPE_CHECKING:
    from perftui.experiments.journal import Proof

INDENT = "     "


def fix_rows(
    snapshot: Snapshot,
    finding: Finding,
    options: Sequence[FixOption],
    chosen: int,
    cells: int,
) -> list[Row]:
    """Each fix with its gain, the chosen one in full."""
    if not options:
        return [row(("Fix", "bold")), row(("  no known fix for this", "dim"))]
    chosen = min(chosen, len(options) - 1)
    several = hint("Fixes ({diagnosis.choose_fix(-1)} and {diagnosis.choose_fix(1)} choose)")
    rows = [row(("Fix" if len(options) == 1 else several, "bold"))]
    for at, option in enumerate(options):
        proof = snapshot.proof(option)
        mark, style = (">", "accent") if at == chosen else (" ", "")
        title = crop(row((f" {mark} {option.title}", style)), cells)
        rows.append(with_fitting(title, _figures(finding, option, proof, at == chosen), cells))
        if at == chosen:
            rows += _option(option, proof, cells)
    return rows


def _figures(
    finding: Finding, option: FixOption, proof: Proof | None, is_chosen: bool
) -> list[Span]:
    """What stands behind the title of a fix: its gain, of those not chosen its risk, its place."""
    figures: list[Span] = [("written", "good")] if option.is_written else []
    if proof is not None:
        figures.append((proof.headline, proof_style(proof)))
    elif option.is_possible and finding.gain:
        figures.append((finding.gain, ""))
    if option.risks and not is_chosen:
        figures.append((f"risk: {', '.join(each.value for each in option.risks)}", "warn"))
    if option.file and option.line:
        figures.append((f"{option.file}:{option.line}", "dim"))
    return figures


def _option(option: FixOption, proof: Proof | None, cells: int) -> list[Row]:
    rows = wrap(option.explanation, cells, "", INDENT)
    if option.is_possible:
        rows += labelled(risk(option.risks, INDENT), cells)
    if proof is not None:
        rows += _proof(proof, cells)
    elif option.is_triable:
        label = f"{INDENT}Proof "
        rows += labelled(Prose("none yet", "dim", " " * len(label), label), cells)
    can = ["{diagnosis.try_fix} tries it"] if option.is_triable else []
    if option.patch and not option.is_written:
        can.append("{diagnosis.write_fix} writes it")
    if can:
        rows.append(row(INDENT, (hint("  ".join(can)), "accent")))
    if option.is_written:
        text = "written to the source: {diagnosis.undo_fix} undoes it, {diagnosis.rerun} runs it"
        rows.append(row(INDENT, (hint(text), "good")))
    elif option.why_not:
        rows += wrap(option.why_not, cells, "warn", INDENT)
    lines = [row(line) for line in option.advice.splitlines()]
    lines += diff_rows(option.patch) if option.patch is not None else []
    return rows + [row(INDENT, *folded) for line in lines for folded in fold(line, cells - 5)]


def _proof(proof: Proof, cells: int) -> list[Row]:
    """On how many pairs the result rests, from when it is, and what disturbed it."""
    when = date_and_time(proof.measured_ns)
    label = f"{INDENT}Proof "
    sure = f", {fmt.percent(CONFIDENCE)} confidence" if proof.ratio is not None else ""
    pairs = fmt.several(len(proof.pairs), "pair")
    text = f"{proof.headline}{sure}, by {pairs} of runs, {when}"
    rows = labelled(Prose(text, proof_style(proof), " " * len(label), label), cells)
    for note in proof.notes:
        rows += wrap(note, cells, "warn", " " * len(label))
    return rows
