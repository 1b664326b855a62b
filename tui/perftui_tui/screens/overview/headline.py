"""The first two lines: what the bottleneck is, and what to do about it. Never blank."""

from __future__ import annotations

from collections.abc import Sequence

from perftui.diagnosis.model import COMPUTE_BOUND_ID, Finding, Severity
from perftui.fixes.model import Risk
from perftui_tui.keys.keymap import hint, shown_key
from perftui_tui.look.rows import Row, Span, row, width, wrap
from perftui_tui.panes.verdict import LABEL_WIDTH, label, proof_style, verdict, waits_for_window
from perftui_tui.reading.snapshot import NextThing, Phase, Snapshot, Todo, next_thing, next_try

LONGEST = 3
"""Rows that the sentence may take; the whole of it is on the Diagnosis screen."""

NARROW = 70
"""Cells below which it takes one less: screens as narrow are mostly low as well."""


def headline(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """The state of affairs in one to three rows, then the next thing to do."""
    top = snapshot.diagnosis.top
    if top is None or waits_for_window(snapshot):
        last = _hint(snapshot)
    else:
        last = _answer(top, snapshot, cells)
    return [*_sentence(*verdict(snapshot), cells), last]


def _sentence(name: Span, text: str, cells: int) -> list[Row]:
    indent = " " * (LABEL_WIDTH + 1)
    longest = LONGEST if cells >= NARROW else LONGEST - 1
    first, *rest = wrap(text, cells, "bold", indent)[:longest] or [row("")]
    return [row(name, " ", *first[1:]), *rest]


def _answer(top: Finding, snapshot: Snapshot, cells: int) -> Row:
    found = next_thing(snapshot)
    if found is not None:
        return _of_fix(found, top, cells)
    if top.severity is Severity.HEALTHY or top.rule == COMPUTE_BOUND_ID:
        return row(label("NEXT", "dim"), " nothing stands out; ", _screen("ops"), " shows the ops")
    line = row(label("DO THIS", "accent"), " ", _key("overview.why"), " why, and what to do")
    return _with_other_fix(line, snapshot, cells)


def _with_other_fix(line: Row, snapshot: Snapshot, cells: int) -> Row:
    """The row with the fix of another finding that can be tried, where it fits whole."""
    found = next_try(snapshot)
    if found is None or not found.option.is_triable:
        return line
    tries = row("   ", _key("overview.try_fix"), f" try {found.option.title}")
    ways = [(*line, *tries, *of) for of in _for(found.finding)]
    return _longest(ways, cells) or line


def _of_fix(found: NextThing, top: Finding, cells: int) -> Row:
    """What is known of the fix, and the keys to go on with it, as far as they fit."""
    option, proof, why = found.option, found.proof, _key("overview.why")
    if found.todo is Todo.NOTHING:
        text = (f"{option.title} is not possible here", "bold")
        return row(label(found.todo.value, "warn"), " ", text, "  ", why, " why")
    line = row(label(found.todo.value, "accent"), " ", (option.title, "bold"))
    if proof is not None:
        line = (*line, (f"   {proof.headline}", proof_style(proof)))
    elif gain := found.finding.gain:
        if Risk.CORES in option.risks:
            gain = f"{found.finding.gain_mark}, few idle cores"
        line = (*line, (f"   {gain}", "good"))
    if found.todo is not Todo.TRY:
        endings = [row("  ", why, hint(text)) for text in _THEN[found.todo]]
        return _longest([(*line, *ending) for ending in endings], cells) or line
    others: list[Row] = _for(found.finding) if found.finding is not top else [()]
    tries = row("  ", _key("overview.try_fix"), " try it") if option.is_triable else ()
    ways = [(*line, *of, *tries, *row("  ", why, " why")) for of in others]
    return _longest([*ways, (*line, *tries)], cells) or line


_THEN = {
    Todo.RUN: (" then {diagnosis.rerun} runs it, {diagnosis.undo_fix} undoes it", " shows it"),
    Todo.WRITE: (" then {diagnosis.write_fix} writes it", " shows it"),
    Todo.LOOK: (" shows what else there is", " shows more"),
}
"""What the key that opens Diagnosis leads to; the shorter one where there is less room."""


def _for(finding: Finding) -> list[Row]:
    """What a fix is for, and nothing where there is no room for it."""
    return [row(f" for {finding.rule}"), ()]


def _longest(ways: Sequence[Row], cells: int) -> Row | None:
    """The first that fits whole."""
    return next((line for line in ways if width(line) <= cells), None)


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
