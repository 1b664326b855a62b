"""What holds the training up: the first finding, the others, and what perftui itself costs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from perftui.diagnosis.model import COMPUTE_BOUND_ID, Confidence, Finding, Severity
from perftui.format import percent, several
from perftui_tui.keys.own_keys import hint, shown_key
from perftui_tui.look.format import elapsed, format_bytes, share
from perftui_tui.look.rows import Row, Span, behind, crop, row, wrap
from perftui_tui.reading.snapshot import JUDGING, NextThing, Phase, Snapshot, Todo, best_of

if TYPE_CHECKING:
    from perftui.experiments.journal import Proof
    from perftui.report.snapshots_and_ncu import MemoryReport

LABEL_WIDTH = 12

READING = "the profiled window is being read and will then be judged"

_WORDS = {Severity.HEALTHY: ("HEALTHY", "good"), Severity.INFO: ("NOTE", "warn")}
"""How bad a finding is, in a word; all others are bottlenecks."""


def label(text: str, style: str) -> Span:
    """A word on a coloured ground, as wide as all others."""
    return (f" {text} ".ljust(LABEL_WIDTH), style)


def waits_for_window(snapshot: Snapshot) -> bool:
    """Whether steps are not judged yet, or a window that is being read may yet show what they do
    not: nothing was found, or all seems well, or the run is over and that is its last."""
    top, is_live = snapshot.diagnosis.top, snapshot.phase.is_live
    if not snapshot.is_judged:
        return snapshot.train_steps > 0 or not is_live
    is_open = top is None or top.severity is Severity.HEALTHY or not is_live
    return snapshot.is_reading and is_open


def verdict(snapshot: Snapshot) -> tuple[Span, str]:
    """The first finding, or why there is none: a label and a sentence."""
    top = snapshot.diagnosis.top
    if waits_for_window(snapshot):
        word, text = ("READING", READING) if snapshot.is_judged else ("JUDGING", JUDGING)
        return label(word, "accent"), text
    if top is not None and top.rule == COMPUTE_BOUND_ID:
        return label("COMPUTING", "accent"), top.headline
    if top is not None:
        return label(*_WORDS.get(top.severity, ("BOTTLENECK", "bad"))), top.headline
    word, style, text = _without_finding(snapshot)
    return label(word, style), text


def verdict_line(snapshot: Snapshot, cells: int, height: int) -> list[Row]:  # noqa: ARG001 - a drawing
    """The verdict, cut to one row."""
    word, sentence = verdict(snapshot)
    return [crop(row(word, f" {sentence}"), cells)]


def _without_finding(snapshot: Snapshot) -> tuple[str, str, str]:
    """A word, its style and a sentence."""
    if snapshot.diagnosis.steady_steps and not snapshot.diagnosis.progress:
        return "NO FINDING", "accent", _nothing_found(snapshot)
    if snapshot.allocations is not None and snapshot.is_memory_alone:
        return "MEMORY", "accent", _held(snapshot.allocations)
    if (ended := _ended(snapshot)) is not None:
        return ended
    if snapshot.diagnosis.progress and snapshot.train_steps:
        return "COLLECTING", "accent", snapshot.diagnosis.progress
    if snapshot.phase is Phase.TRACE:
        return "NO VERDICT", "warn", snapshot.diagnosis.progress or "no rule could judge this trace"
    word = "WARM-UP" if snapshot.train_steps else "STARTING"
    return word, "accent", f"{_start_of_run(snapshot)} ({elapsed(snapshot.elapsed_ns)})"


def _held(memory: MemoryReport) -> str:
    """What holds most of the memory of the fullest device."""
    device = max(memory.devices, key=lambda one: one.allocated, default=None)
    if device is None:
        return "the snapshot holds no memory of a GPU"
    text = f"GPU {device.device} holds {format_bytes(device.allocated)}"
    first = next((site for site in device.sites if site.file), None)
    if first is None or first.file is None:
        return text
    part = share(first.bytes, sum(site.bytes for site in device.sites))
    return f"{text}; {first.file.rpartition('/')[2]}:{first.line} holds {part} of it"


def failure(snapshot: Snapshot, cells: int) -> list[Row]:
    """How a run failed that could be judged all the same; nothing for others."""
    word, style, text = _ended(snapshot) or ("", "", "")
    named = label(word, style)
    if style != "bad" or verdict(snapshot)[0] == named:
        return []
    return [crop(row(named, f" {text}", hint("; {app.show('log')} shows why")), cells)]


def _ended(snapshot: Snapshot) -> tuple[str, str, str] | None:
    """How a run ended; None where it goes on, or is a trace."""
    phase, manifest, far = snapshot.phase, snapshot.manifest, _how_far(snapshot)
    code = manifest.exit_code if manifest else None
    if phase is Phase.FAILED and code is None:
        return "FAILED", "bad", "the script could not be started"
    ways = {
        Phase.FAILED: ("FAILED", "bad", f"the script ended with exit code {code} {far}"),
        Phase.KILLED: ("KILLED", "bad", f"a signal killed the script (exit code {code}) {far}"),
        Phase.LOST: ("LOST", "bad", f"the recorder died {far}, and the script's terminal with it"),
        Phase.ENDED: ("ENDED", "warn", f"the script ended (exit 0) {far}"),
    }
    if phase is Phase.STOPPED and manifest is not None:
        return "STOPPED", "warn", f"{manifest.stopped} {far}"
    return ways.get(phase)


def _nothing_found(snapshot: Snapshot) -> str:
    count = snapshot.diagnosis.rules_not_judged
    key = shown_key("app.show('diagnosis')")
    unknown = f"; {several(count, 'rule')} could not judge, {key} shows why" if count else ""
    steps = several(snapshot.diagnosis.steady_steps, "step")
    return f"no rule exceeds its limit in {steps}{unknown}"


def _start_of_run(snapshot: Snapshot) -> str:
    if snapshot.train_steps:
        return "the first steps are warm-up"
    if snapshot.torch_imported:
        return "waiting for the first step: torch is loaded, no training step yet"
    return "the script is starting, torch is not loaded yet"


def _how_far(snapshot: Snapshot) -> str:
    if snapshot.train_steps:
        is_known = snapshot.diagnosis.steady_steps or not snapshot.is_judged
        few = "" if is_known else ", too few to judge"
        return f"after {several(snapshot.train_steps, 'step')}{few}"
    return "without a training step" if snapshot.torch_imported else "before it used torch"


MARKS: dict[Severity, Span] = {
    Severity.CRITICAL: ("!!", "bad"),
    Severity.WARNING: ("! ", "warn"),
    Severity.INFO: ("· ", "dim"),
    Severity.HEALTHY: ("ok", "good"),
}

LEGEND = "  ".join(f"{MARKS[each][0].strip()} {each.name.lower()}" for each in Severity if each)
"""What the marks mean; that of a healthy run speaks for itself."""


FIX_INDENT = 18
"""Cells before the fix of a finding: as far in as its sentence."""


def headlines(finding: Finding, snapshot: Snapshot, cells: int) -> list[Row]:
    """One finding: mark, share of the step, gain, and its whole sentence, wrapped under itself.

    The gain is the one that a fix of it was measured to have, where that is known."""
    cost, sure = percent(finding.share) if finding.cost_ns else "", finding.confidence
    doubt = "" if sure is Confidence.HIGH else f" ({sure.value} confidence)"
    gain, style = finding.gain_mark, "bold"
    proof = snapshot.proof_of(finding)
    if proof is not None and proof.ratio is not None:
        gain, style = f"{proof.ratio:.2f}x", proof_style(proof)
    before = (MARKS[finding.severity], (f"{cost:>6} ", ""), (f"{gain:>7}  ", style))
    return behind(before, f"{finding.headline}{doubt}", cells)


def findings(snapshot: Snapshot, cells: int, height: int) -> list[Row]:
    """Each finding but the first, which the headline names, with its best fix, or else what to do
    about it; then what could not be read."""
    rows: list[Row] = []
    for finding in snapshot.diagnosis.findings[1:]:
        rows += headlines(finding, snapshot, cells)
        best, answer = best_of(finding, snapshot), finding.advice
        if best is not None and best.todo is Todo.NOTHING:
            answer, best = best.by_hand, None
        does = _fix(best) if best is not None else [("to do: ", "dim"), (answer, "")]
        if best is not None or answer:
            rows.append(crop(row(" " * FIX_INDENT, *does), cells))
    if not rows:
        rows = [row(("nothing else was found" if snapshot.diagnosis.top else "none so far", "dim"))]
    rows += wrap(snapshot.diagnosis.asking, cells, "dim")
    notes = _notes(snapshot)
    for problem in snapshot.problems:
        rows += wrap(problem, cells, "dim" if problem in notes else "warn")
    if height and len(rows) > height:
        rows = [*rows[: height - 1], crop((*rows[height - 1], (" …", "dim")), cells)]
    return rows


def _fix(best: NextThing) -> list[Span]:
    """The fix that is named below its finding, with what was measured of it."""
    word = "written: " if best.todo is Todo.RUN else "fix: "
    proof = best.proof
    gain = [(f"   {proof.headline}", proof_style(proof))] if proof is not None else []
    return [(word, "dim"), (best.option.title, ""), *gain]


def proof_style(proof: Proof) -> str:
    """How the result of a trial is drawn."""
    return "good" if proof.is_faster else "warn"


def _notes(snapshot: Snapshot) -> set[str]:
    """Problems about what a trace was recorded without, not about reading it."""
    if snapshot.phase is not Phase.TRACE or snapshot.analysis is None:
        return set()
    damage = {warning.message for warning in snapshot.analysis.trace.warnings}
    return set(snapshot.analysis.notes) - damage


def own_cost(snapshot: Snapshot) -> list[Span]:
    """``perftui 0.3 %, limit 1 %``, highlighted where it is over; nothing where it is not known.

    The first window may take it over the limit; later ones wait until that is paid back."""
    from perftui.facts.step.own_cost import own_cost_text

    cost = snapshot.ask(own_cost_text)
    if cost is None:
        return []
    text, is_over = cost
    return [(text, "warn" if is_over else "dim")]
