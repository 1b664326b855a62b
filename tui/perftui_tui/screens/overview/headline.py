"""The first two lines: what the bottleneck is, and what to do about it. Never blank."""

from __future__ import annotations

from perftui.diagnosis.model import Finding, Severity
from perftui.fixes.model import FixOption
from perftui.format import several
from perftui_tui.keys.keymap import shown_key
from perftui_tui.look.format import elapsed
from perftui_tui.look.rows import Row, Span, row, wrap
from perftui_tui.panes.verdict_line import (
    LABEL_WIDTH,
    READING,
    label,
    verdict_label,
    waits_for_window,
)
from perftui_tui.reading.snapshot import Phase, Snapshot

LONGEST = 3
"""Rows that the sentence may take; the whole of it is on the Diagnosis screen."""


def headline(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """The state of affairs in one to three rows, then the next thing to do."""
    top = snapshot.diagnosis.top
    if waits_for_window(snapshot):
        return [*_sentence(label("READING", "accent"), READING, cells), _hint(snapshot)]
    if top is not None:
        return [*_finding(top, cells), _answer(top, snapshot)]
    word, style, text = _state(snapshot)
    return [*_sentence(label(word, style), text, cells), _hint(snapshot)]


def _sentence(name: Span, text: str, cells: int) -> list[Row]:
    indent = " " * (LABEL_WIDTH + 1)
    first, *rest = wrap(text, cells, "bold", indent)[:LONGEST] or [row("")]
    return [row(name, " ", *first[1:]), *rest]


def _finding(top: Finding, cells: int) -> list[Row]:
    return _sentence(verdict_label(top), top.sentence, cells)


def _answer(top: Finding, snapshot: Snapshot) -> Row:
    options = snapshot.fixes(top)
    if options:
        possible = next((option for option in options if option.is_possible), None)
        return _do_this(possible, top) if possible else _not_possible(options[0])
    if top.severity is Severity.HEALTHY:
        return row(label("NEXT", "dim"), " nothing stands out; ", _screen("ops"), " shows the ops")
    return row(label("DO THIS", "accent"), " ", _key("overview.why"), " why, and what can be done")


def _do_this(option: FixOption, top: Finding) -> Row:
    gain = top.best_speedup
    best = (f"   at best {gain:.2f}x faster", "good") if gain else ("", "")
    keys: tuple[str | Span, ...] = ("  ", _key("overview.why"), " why")
    if option.override is not None:
        keys = ("  ", _key("overview.try_fix"), " try it", *keys)
    return row(label("DO THIS", "accent"), " ", (option.title, "bold"), best, *keys)


def _not_possible(option: FixOption) -> Row:
    text = (f"{option.title} is not possible here", "bold")
    return row(label("NO FIX", "warn"), " ", text, "  ", _key("overview.why"), " why")


def _state(snapshot: Snapshot) -> tuple[str, str, str]:
    if snapshot.diagnosis.steady_steps and not snapshot.diagnosis.progress:
        return "NO FINDING", "accent", _nothing_found(snapshot)
    if snapshot.is_memory_alone:
        return "MEMORY", "accent", "a snapshot of the GPU's memory; it holds no times"
    phase, manifest = snapshot.phase, snapshot.manifest
    code = manifest.exit_code if manifest else None
    if phase is Phase.FAILED and code is None:
        return "FAILED", "bad", "the script could not be started"
    if phase is Phase.FAILED:
        return "FAILED", "bad", f"the script ended with exit code {code} {_how_far(snapshot)}"
    if phase is Phase.KILLED:
        return "KILLED", "bad", f"a signal ended the script (exit code {code}) {_how_far(snapshot)}"
    if phase is Phase.LOST:
        lost = f"the recorder died {_how_far(snapshot)}, and the script's terminal with it"
        return "LOST", "bad", lost
    if phase is Phase.ENDED:
        return "ENDED", "warn", f"the script ended (exit 0) {_how_far(snapshot)}"
    if snapshot.diagnosis.progress and snapshot.train_steps:
        return "COLLECTING", "accent", snapshot.diagnosis.progress
    if phase is Phase.TRACE:
        return "NO VERDICT", "warn", snapshot.diagnosis.progress or "no rule could judge this trace"
    return "STARTING", "accent", f"{_start_of_run(snapshot)} ({elapsed(snapshot.elapsed_ns)})"


def _nothing_found(snapshot: Snapshot) -> str:
    count = len(snapshot.diagnosis.abstentions)
    key, _ = _screen("diagnosis")
    unknown = f"; {several(count, 'rule')} could not judge, {key} says why" if count else ""
    steps = several(snapshot.diagnosis.steady_steps, "step")
    return f"nothing known crosses its limit in {steps}{unknown}"


def _start_of_run(snapshot: Snapshot) -> str:
    if snapshot.train_steps:
        return "the first steps are warm-up"
    if snapshot.torch_imported:
        return "waiting for the first step: torch in use, no training step yet"
    return "the script is starting, torch is not in use yet"


def _how_far(snapshot: Snapshot) -> str:
    if snapshot.train_steps:
        return f"after {several(snapshot.train_steps, 'step')}, too few to judge"
    if snapshot.torch_imported:
        return "without a training step"
    return "before it used torch"


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
    return row(label("DO THIS", "accent"), " ", _screen("log"), " the script's last words")


def _key(action: str) -> Span:
    return (shown_key(action), "key")


def _screen(name: str) -> Span:
    return _key(f"app.show('{name}')")
