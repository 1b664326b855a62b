"""A trial, a tuning or a measurement of the machine as rows: in one line, and in full."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from perftui import format as fmt
from perftui.experiments.trial_runs import Purpose, runs_of
from perftui.experiments.trial_verdict import Agreement, Stage, is_tested
from perftui.trace.text import printable
from perftui_tui.charts.cells import interval_rows
from perftui_tui.keys.own_keys import hint
from perftui_tui.look.format import date_and_time, elapsed, format_ns
from perftui_tui.look.rows import Row, Span, crop, fit, row, spread, width, with_fitting, wrap
from perftui_tui.reading.experiment_state import ProbeState, TrialState, TuningState

if TYPE_CHECKING:
    from perftui.experiments.journal import Proof
    from perftui.probe.ceilings import Ceilings


def status_line(name: str, title: str, figures: Sequence[Span], cells: int) -> Row:
    """``name`` and ``title``, which may be empty, then as many of ``figures`` as fit: the first is
    dropped last."""
    shows = row((hint(" {app.trial} shows it "), "dim"))
    first, *others = figures
    left = row((f" {name} ", "key"), f" {title}  " if title else " ", first)
    room = cells - sum(len(text) for text, _ in shows) - 1
    return fit(spread(with_fitting(crop(left, room), others, room), shows, cells), cells)


def stage_words(stage: Stage, problem: str) -> Span | None:
    """What there is to say of a stage beside what was measured; None where that is all."""
    return {
        Stage.WAITING: ("waiting for the running training to stop", "warn"),
        Stage.STOPPING: ("stopping the training", "warn"),
        Stage.FAILED: (f"failed: {problem}", "bad"),
    }.get(stage)


def seconds_left(state: TrialState, now: float) -> float | None:
    """About how many seconds until the next look; None where nothing tells.

    Runs are taken to last as long as those before, at least as long as the running one has so far;
    before the first as the recorded run tells."""
    each, of_workers = _mean(state, workers=False), _mean(state, workers=True)
    if each is None or of_workers is None:
        return None
    # Runs until the next look, without those that try numbers of workers; a running one counts.
    run = state.job.run
    if state.makes_blocks:
        made = sum(one.purpose is Purpose.BLOCKS for one, _ in state.job.made)
        one_more = run is not None and run.purpose is Purpose.LOSSES
        runs = runs_of(state.look, state.plan.pairs_of_run) - made + one_more
    else:
        runs = runs_of(state.look) - sum(one.is_of_runs for one, _ in state.job.made)
    if run is None:
        whole = state.plan.numbers_of_workers * of_workers + runs * each
        return max(0.0, whole - (now - state.began))
    since = now - state.job.run_began_ns / 1e9
    if run.purpose is Purpose.WORKERS:
        return (1 + run.further) * max(of_workers, since) - since + runs * each
    return max(1, runs) * max(each, since) - since


def _mean(state: TrialState, *, workers: bool) -> float | None:
    took = [time for run, time in state.job.made if (run.purpose is Purpose.WORKERS) is workers]
    return sum(took) / len(took) if took else state.plan.run_seconds


BAR_CELLS = 44
"""Fits the narrowest dialog, and shows two per cent at a ratio of 2."""

STYLES = {"faster": "good", "slower": "bad", "no effect": "bad", "not comparable": "warn"}
"""By the outcome of a trial."""


def rest(state: TrialState, now: float, *, is_whole: bool = False) -> str:
    """About how long it takes until the result is looked at next; ``is_whole`` where there is room
    for how many pairs it may take then."""
    left = seconds_left(state, now)
    if left is None:
        return "time left is known after the first run"
    if left < 5.0:  # a rough time is ten seconds at least
        return "the result soon"
    may_go_on = is_whole and state.look < state.last_look
    further = f", up to pair {state.last_look} if not clear" if may_go_on else ""
    return f"about {fmt.rough_time(left)} to pair {state.look}{further}"


def figures(state: TrialState, now: float) -> list[Span]:
    """What runs, such as ``pair 3 of 6``, what is known, and how long it takes, for one row."""
    run = state.job.run
    runs = run.before_pairs or f"pair {run.pair} of {state.look}" if run else "starting"
    headline = state.verdict.headline if state.verdict is not None else ""
    known = [(headline.partition(" (")[0], "bold")] if headline else []
    return [(runs, ""), *known, (rest(state, now), "dim"), (_step(state)[2:], "dim")]


def _step(state: TrialState) -> str:
    """``, step 43 of 115``, of the run that is made now; empty before its first."""
    return ", step {:,} of {:,}".format(*state.run_step) if state.run_step else ""


def bar_rows(state: TrialState, cells: int) -> list[Row]:
    """The pairs and the interval on an axis; nothing before the first pair."""
    if not state.pairs:
        return []
    found = state.verdict.estimate if state.verdict else None
    interval = (found.low, found.ratio, found.high) if found else None
    ratios = [pair.ratio for pair in state.pairs]
    return [*interval_rows(ratios, interval, min(BAR_CELLS, cells))]


def pair_rows(state: TrialState, cells: int) -> list[Row]:
    """Each pair, the newest on top, then what they rest on."""
    pairs = [(pair.before.step_ns, pair.after.step_ns) for pair in state.pairs]
    return [*pair_table(pairs), *_basis(state, cells)]


def pair_table(pairs: Sequence[tuple[int, int]]) -> list[Row]:
    """The step of each pair before and after, in ns, and their ratio; the newest on top."""
    rows = [row((f"{'pair':>6}{'before':>12}{'after':>12}{'ratio':>9}", "bold"))]
    for number, (before, after) in reversed(list(enumerate(pairs, 1))):
        ratio = f"{before / after:.2f}x" if after else "?"
        rows.append(row(f"{number:>6}{format_ns(before):>12}{format_ns(after):>12}{ratio:>9}"))
    return rows


def worker_rows(state: TrialState, cells: int) -> list[Row]:
    """What a step takes with several numbers of workers, where that was measured."""
    from perftui.report.trial import workers_text

    progress = state.job.progress
    if not progress.workers:
        return []
    step = state.plan.step_ns
    before = f"; it took {fmt.duration(step)} in the recorded run" if step is not None else ""
    return wrap(f"a step {workers_text(progress)}{before}", cells, "dim")


def _basis(state: TrialState, cells: int) -> list[Row]:
    """What the pairs rest on: whether the change is in force, and what the machine does alone."""
    from perftui.report.trial import noise_text

    progress = state.job.progress
    said = [f"in force: {', '.join(progress.changes)}"] if progress.changes else []
    said += progress.costs.sentences
    if progress.losses.agreement is not Agreement.NOT_CHECKED:
        said.append(progress.losses.sentence)
    if progress.noise is not None:
        said.append(noise_text(progress))
    lines = [line for text in said for line in wrap(text, cells, "dim")]
    return [*worker_rows(state, cells), *lines]


USUAL_CELLS = 62
"""Fits a terminal of 80 columns, and every headline."""

HOPELESS = 3
"""Pairs, all of them slower, after which a gain is unlikely: one in eight trials without any
difference begins so, and with a gain fewer."""


def trial_line(state: TrialState, now: float, cells: int) -> Row:
    """The trial in one row."""
    shown = figures(state, now) if state.stage is Stage.RUNNING else [result(state)]
    clock = [] if state.stage.is_over else [_clock(state.elapsed(now))]
    return status_line("trial", state.job.tried.title, [*shown, *clock], cells)


def _clock(seconds: float) -> Span:
    return (elapsed(int(seconds * 1e9)), "dim")


def trial_rows(state: TrialState, now: float, cells: int) -> list[Row]:
    """The trial in full: what it comes to first, then the pairs, the newest on top."""
    cells = min(USUAL_CELLS, cells)
    # A dialog is as wide as its widest row: one that always is keeps it from jumping.
    rows = [fit(row((state.job.tried.title, "bold")), cells), *_outcome(state, cells)]
    rows += bar_rows(state, cells)
    if state.verdict is not None and state.verdict.estimate and is_tested(len(state.pairs)):
        from perftui.report.trial import CONFIDENCE_TEXT

        rows += wrap(CONFIDENCE_TEXT, cells, "dim")
    if state.stage is Stage.RUNNING and state.pairs and state.job.run is not None:
        rows += wrap(f"now {state.job.run.text}{_step(state)}", cells)
    rows += wrap(_trial_time(state, now), cells, "dim")
    if state.problem and state.stage is not Stage.FAILED:
        rows += wrap(state.problem, cells, "warn")
    for note in state.job.progress.notes:
        rows += wrap(note, cells, "warn")
    if state.stage.is_over and not state.pairs:
        return rows
    if not state.pairs:
        return [*rows, *worker_rows(state, cells), (), *wrap(_first(state), cells, "dim")]
    return [*rows, (), *pair_rows(state, cells)]


def result(state: TrialState) -> Span:
    """What there is to say of it at this moment, in a few words."""
    verdict = state.verdict
    if words := stage_words(state.stage, state.problem):
        return words
    if state.stage is Stage.STOPPED:
        said = f": {verdict.headline}" if verdict else ""
        return (f"stopped after {fmt.several(len(state.pairs), 'pair')}{said}", "warn")
    if verdict is None:
        run = state.job.run
        return (f"{run.text}{_step(state)}" if run else "starting the first run", "")
    text = verdict.while_running if state.stage is Stage.RUNNING else verdict.headline
    return (text, STYLES.get(verdict.outcome.value, "bold"))


def _outcome(state: TrialState, cells: int) -> list[Row]:
    text, style = result(state)
    rows = wrap(text, cells, style)
    verdict = state.verdict
    is_early = verdict is not None and verdict.estimate is None
    if is_early and len(state.pairs) >= HOPELESS and all(pair.ratio < 1 for pair in state.pairs):
        text = "slower in every pair so far: stop it unless you expect more"
        rows += wrap(text, cells, "warn")
    if verdict is not None and verdict.estimate is not None and state.stage is Stage.FAILED:
        rows += wrap(f"before that: {verdict.headline}", cells)
    return rows


def _trial_time(state: TrialState, now: float) -> str:
    clock = elapsed(int(state.elapsed(now) * 1e9))
    if state.stage.is_over:
        return f"{fmt.several(len(state.pairs), 'pair')} in {clock}"
    if state.stage is not Stage.RUNNING:
        return clock
    return f"{clock} so far; {rest(state, now, is_whole=True)}"


def _first(state: TrialState) -> str:
    if state.plan.pairs_of_run is not None:
        return f"Each run makes {state.plan.steps:,} steps and switches the fix on and off."
    return (
        f"Runs of {state.plan.steps:,} steps alternate, with the fix and without it. The first run "
        "does not count: files and caches are still cold."
    )


def proof_rows(proof: Proof, cells: int) -> list[Row]:
    """The change and its gain, the interval on an axis, then each pair, the newest on top."""
    from perftui.report.trial import CONFIDENCE_TEXT

    rows = wrap(proof.title, cells, "bold")
    rows += wrap(proof.headline, cells, STYLES.get(proof.outcome.value, "bold"))
    if proof.ratio is not None and proof.low is not None and proof.high is not None:
        ratios = [pair.before_ns / pair.after_ns for pair in proof.pairs if pair.after_ns]
        rows += interval_rows(ratios, (proof.low, proof.ratio, proof.high), min(BAR_CELLS, cells))
        if is_tested(len(proof.pairs)):
            rows += wrap(CONFIDENCE_TEXT, cells, "dim")
    rows.append(row((f"measured {date_and_time(proof.measured_ns)}", "dim")))
    for note in proof.notes:
        rows += wrap(note, cells, "warn")
    return [*rows, (), *pair_table([(one.before_ns, one.after_ns) for one in proof.pairs])]


def newest(proofs: Mapping[str, Proof]) -> Proof | None:
    """The proof that was measured last; None where there is none."""
    return max(proofs.values(), key=lambda one: one.measured_ns, default=None)


INDENT = 9
"""Cells before the titles of the ladder."""


def tuning_line(state: TuningState, now: float, cells: int) -> Row:
    """The tuning in one row."""
    counts = (f"{len(state.journal.kept)} kept", "dim"), _clock(state.elapsed(now))
    trial = state.tried
    if trial is not None and state.stage is Stage.RUNNING:
        return status_line("tuning", trial.job.tried.title, [*figures(trial, now), *counts], cells)
    return status_line("tuning", "", [tuning_result(state), *counts], cells)


def tuning_rows(state: TuningState, now: float, cells: int) -> list[Row]:
    """The tuning in full: what it comes to, the ladder, then the pairs of the fix that is tried."""
    cells = min(USUAL_CELLS, cells)
    text, style = tuning_result(state)
    # A dialog is as wide as its widest row: one that always is keeps it from jumping.
    first, *others = wrap(text, cells, style or "bold")
    rows = [fit(first, cells), *others, *wrap(_tuning_time(state, now), cells, "dim")]
    if state.problem and state.stage is not Stage.FAILED:
        rows += wrap(state.problem, cells, "warn")
    rows += [(), *_ladder(state, cells)]
    if state.stage.is_over:
        return [*rows, *_what_stays(state, cells)]
    return [*rows, *_trial(state, now, cells)]


def tuning_result(state: TuningState) -> Span:
    """What there is to say of it at this moment, in a few words."""
    if words := stage_words(state.stage, state.problem):
        return words
    if state.stage is Stage.STOPPED:
        stays = "proven fixes stay" if state.journal.kept else "nothing proven so far"
        return (f"stopped: {stays}", "warn")
    if state.stage is Stage.DONE:
        if state.final is None:
            return ("nothing was kept: no fix is proven here", "bold")
        verdict = state.final.verdict
        return (f"{verdict.headline} with all fixes", STYLES.get(verdict.outcome.value, "bold"))
    if state.keeping:
        return (f"proven: {state.keeping}; recording the training with it", "")
    if state.trial is not None:
        return (f"trying {state.trial.job.tried.title}", "")
    return ("looking for fixes to try", "")


def tried_text(state: TuningState) -> str:
    """``3 tried, 2 kept``."""
    return f"{len(state.journal.attempts)} tried, {len(state.journal.kept)} kept"


def _tuning_time(state: TuningState, now: float) -> str:
    clock = elapsed(int(state.elapsed(now) * 1e9))
    tried = tried_text(state)
    if state.stage.is_over:
        return f"{tried} in {clock}"
    if state.budget is None:
        return f"{clock} so far; {tried}"
    left = state.budget - state.elapsed(now)
    until = f"about {fmt.rough_time(left)} until no further fix is started"
    return f"{clock} so far; {tried}; {until if left > 0 else 'time up'}"


def _ladder(state: TuningState, cells: int) -> list[Row]:
    """Each fix that was tried: of those that were kept how fast all of it is up to there."""
    rows = [row(f"{1.0:6.2f}x  as it was")]
    heights = iter(ratio for ratio, _ in state.journal.ladder)
    for attempt in state.journal.attempts:
        ratio = next(heights) if attempt in state.journal.kept else None
        style = STYLES.get(attempt.outcome, "dim")
        mark = " " * (INDENT - 2) + "- " if ratio is None else f"{ratio:6.2f}x  "
        title = row(mark, (f"{'+ ' if ratio else ''}{attempt.title}", "" if ratio else "dim"))
        rows += _titled(title, (attempt.headline, style), cells)
        if attempt.advice:
            by_hand = f"not in the source; by hand: {attempt.advice}"
            rows += wrap(by_hand, cells, "warn", " " * (INDENT + 2))
    verdict = state.final.verdict if state.final else None
    if verdict is not None and verdict.estimate is not None:
        title = row(f"{verdict.estimate.ratio:6.2f}x  ", ("all fixes together", "bold"))
        style = STYLES.get(verdict.outcome.value, "bold")
        rows += _titled(title, (verdict.headline, style), cells)
    return rows


def _titled(title: Row, figure: Span, cells: int) -> list[Row]:
    """The title with its figure behind it, or below it where both do not fit."""
    title = crop(title, cells)
    whole = with_fitting(title, [figure], cells)
    if width(whole) > width(title):
        return [whole]
    return [title, *wrap(figure[0], cells, figure[1], " " * (INDENT + 2))]


def _trial(state: TuningState, now: float, cells: int) -> list[Row]:
    trial = state.tried
    if trial is None or state.stage is not Stage.RUNNING:
        return []
    mark = row(f"{'now':>6}   ", (trial.job.tried.title, "bold"))
    pair, *others = figures(trial, now)
    rows = [crop(mark, cells), crop(with_fitting(row(" " * INDENT, pair), others, cells), cells)]
    if not trial.pairs:
        return [*rows, *worker_rows(trial, cells)]
    return [*rows, *bar_rows(trial, cells), (), *pair_rows(trial, cells)]


def _what_stays(state: TuningState, cells: int) -> list[Row]:
    """What was written and how to take it back, and the run that shows what is left."""
    rows: list[Row] = []
    if state.journal.files:
        undo = hint("{diagnosis.undo_fix} undoes it, the last fix first")
        rows += wrap(f"written to {', '.join(state.journal.files)}; {undo}", cells)
    if state.final is not None and state.final.losses.sentence:
        rows += wrap(state.final.losses.sentence, cells, "dim")
    if state.stage is not Stage.DONE:
        rows += wrap(hint("{diagnosis.tune} continues from here"), cells, "dim")
    return [(), *rows] if rows else []


PROBE_CELLS = 70
"""Fits a terminal of 80 columns."""


def probe_line(state: ProbeState, now: float, cells: int) -> Row:
    """The measurement in one row."""
    return status_line("probe", "", [probe_result(state), _clock(state.elapsed(now))], cells)


def probe_rows(state: ProbeState, now: float, cells: int) -> list[Row]:
    """What is being measured, then the table."""
    cells = min(PROBE_CELLS, cells)
    text, style = probe_result(state)
    rows = wrap(text, cells, style or "bold")
    if state.problem and state.stage is not Stage.FAILED:
        rows += wrap(state.problem, cells, "warn")
    if state.found is not None:
        from perftui.report.machine import kept_text

        table = _table(state.found, cells)
        return [*rows, (), *table, (), *wrap(kept_text(state.kept), cells, "dim")]
    if not state.stage.is_over:
        rows.append(row(_clock(state.elapsed(now))))
    return [*rows, *(row(("  measured  ", "dim"), name) for name in state.names)]


def _table(found: Ceilings, cells: int) -> list[Row]:
    """Each rate with its spread, and below it how it was measured."""
    from perftui.report.machine import RATE_HEAD, missing_text, rate_cells

    rows = [row((RATE_HEAD, "bold"))]
    for rate in found.rates:
        name, value, spread = rate_cells(rate)
        rows.append(row(name, value, (spread, "dim")))
        rows += wrap(printable(rate.how), cells, "dim", "  ")
    for missing in found.not_measured:
        rows += wrap(missing_text(missing), cells, "warn")
    return rows


def probe_result(state: ProbeState) -> Span:
    """What there is to say of it at this moment, in a few words."""
    if state.stage is Stage.FAILED:
        return (f"failed: {state.problem}", "bad")
    if state.stage is Stage.STOPPING:
        return ("stopping", "warn")
    if state.stage is Stage.STOPPED:
        return ("stopped: nothing is kept", "warn")
    if state.found is None:
        last = f", {state.names[-1]} done" if state.names else ""
        return (f"measuring what this machine can do{last}", "")
    if state.found.is_disturbed:
        return ("measured, but other programs used the machine", "warn")
    return (f"measured {fmt.several(len(state.found.rates), 'peak rate')} of this machine", "good")
