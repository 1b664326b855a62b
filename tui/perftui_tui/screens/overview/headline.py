"""The first two lines: what the bottleneck is, and what to do about it. Never blank."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.diagnosis.model import COMPUTE_BOUND_ID, Finding, Severity
from perftui.fixes.model import FixOption
from perftui_tui.keys.keymap import shown_key
from perftui_tui.look.rows import Row, Span, row, width, wrap
from perftui_tui.panes.verdict import LABEL_WIDTH, label, verdict, waits_for_window
from perftui_tui.reading.snapshot import Phase, Snapshot

if TYPE_CHECKING:
    from perftui.experiments.trial.proof import Proof

LONGEST = 3
"""Rows that the sentence may take; the whole of it is on the Diagnosis screen."""

NARROW = 70
"""Cells below which it takes one less: screens as narrow are mostly low as well."""


def headline(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """The state of affairs in one to three rows, then the next thing to do."""
    top = snapshot.diagnosis.top
    if top is None or waits_for_window(snapshot):
        next_thing = _hint(snapshot)
    else:
        next_thing = _answer(top, snapshot, cells)
    return [*_sentence(*verdict(snapshot), cells), next_thing]


def _sentence(name: Span, text: str, cells: int) -> list[Row]:
    indent = " " * (LABEL_WIDTH + 1)
    longest = LONGEST if cells >= NARROW else LONGEST - 1
    first, *rest = wrap(text, cells, "bold", indent)[:longest] or [row("")]
    return [row(name, " ", *first[1:]), *rest]


def _answer(top: Finding, snapshot: Snapshot, cells: int) -> Row:
    if (done := _done(snapshot, cells)) is not None:
        return done
    options = snapshot.fixes(top)
    if options:
        possible = [option for option in options if option.is_possible]
        return _tried_or_to_do(possible, top, snapshot) if possible else _not_possible(options[0])
    if top.severity is Severity.HEALTHY or top.rule == COMPUTE_BOUND_ID:
        return row(label("NEXT", "dim"), " nothing stands out; ", _screen("ops"), " shows the ops")
    line = row(label("DO THIS", "accent"), " ", _key("overview.why"), " why, and what to do")
    return _with_other_fix(line, snapshot, cells)


def _done(snapshot: Snapshot, cells: int) -> Row | None:
    """What was written of the fixes of any finding, or else is proven to gain."""
    found = snapshot.diagnosis.findings
    every = [option for finding in found for option in snapshot.fixes(finding)]
    for option in every:
        if option.is_written:
            return _written(option, snapshot.proof(option), cells)
    proofs = (snapshot.proof(option) for option in every if option.is_possible)
    proven = next((proof for proof in proofs if proof is not None and proof.is_faster), None)
    return _measured(proven) if proven is not None else None


def _written(option: FixOption, proof: Proof | None, cells: int) -> Row:
    line = row(label("WRITTEN", "accent"), " ", (option.title, "bold"))
    gain = [(f"   {proof.headline}", "good" if proof.is_faster else "warn")] if proof else []
    keys: tuple[str | Span, ...] = ("  ", _screen("diagnosis"), " run it again or undo it")
    longer = row(*line, *gain, *keys)
    return longer if width(longer) <= cells else row(*line, *gain, *keys[:2], " run it again")


def _with_other_fix(line: Row, snapshot: Snapshot, cells: int) -> Row:
    """The row with the fix of another finding that can be tried, where it fits whole."""
    finding = snapshot.finding_to_try()
    options = snapshot.fixes(finding) if finding is not None else ()
    option = next((one for one in options if one.is_triable), None)
    if finding is None or option is None:
        return line
    key = _key("overview.try_fix")
    for words in (f" try {option.title} for {finding.rule}", f" try {option.title}"):
        longer = row(*line, "   ", key, words)
        if width(longer) <= cells:
            return longer
    return line


def _tried_or_to_do(possible: list[FixOption], top: Finding, snapshot: Snapshot) -> Row:
    """The first fix that was not tried, or whose result is not clear; else what came of the
    first."""
    useless: list[Proof] = []
    for option in possible:
        proof = snapshot.proof(option)
        if proof is None:
            return _do_this(option, top)
        if not proof.is_decided:
            return _measured(proof)
        useless.append(proof)
    return _measured(useless[0])


def _measured(proof: Proof) -> Row:
    word, style, more = "TRIED", "warn", " more"
    if proof.is_faster:
        word, style, more = "PROVEN", "good", " write it"
    title, gain = (proof.title, "bold"), (f"   {proof.headline}", style)
    return row(label(word, "accent"), " ", title, gain, "  ", _screen("diagnosis"), more)


def _do_this(option: FixOption, top: Finding) -> Row:
    best = (f"   {top.gain}", "good") if top.gain else ("", "")
    keys: tuple[str | Span, ...] = ("  ", _key("overview.why"), " why")
    if option.is_triable:
        keys = ("  ", _key("overview.try_fix"), " try it", *keys)
    return row(label("DO THIS", "accent"), " ", (option.title, "bold"), best, *keys)


def _not_possible(option: FixOption) -> Row:
    text = (f"{option.title} is not possible here", "bold")
    return row(label("NO FIX", "warn"), " ", text, "  ", _key("overview.why"), " why")


def _hint(snapshot: Snapshot) -> Row:
    if snapshot.is_memory_alone:
        return row(label("DO THIS", "accent"), " ", _screen("memory"), " allocations by call site")
    if snapshot.phase is Phase.TRACE:
        screens = (_screen("timeline"), " the timeline  ", _screen("ops"), " the ops")
        return row(label("DO THIS", "accent"), " ", *screens)
    if snapshot.phase.is_live:
        return row(label("MEANWHILE", "dim"), " ", _screen("log"), " the script's output")
    if snapshot.manifest is not None and snapshot.manifest.message:
        return row(label("REASON", "warn"), " ", snapshot.manifest.message)
    return row(label("DO THIS", "accent"), " ", _screen("log"), " the script's last output")


def _key(action: str) -> Span:
    return (shown_key(action), "key")


def _screen(name: str) -> Span:
    return _key(f"app.show('{name}')")
