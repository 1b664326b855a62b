"""How long a trial takes until its result is looked at next, by the runs that it has made."""

from __future__ import annotations

from perftui.experiments.progress import Purpose
from perftui.experiments.trial_runs import runs_of
from perftui_tui.reading.trial_state import TrialState


def seconds_left(state: TrialState, now: float) -> float | None:
    """About how many seconds until the next look; None where nothing tells.

    Runs are taken to last as long as those before, at least as long as the running one has so far;
    before the first as the recorded run tells.
    """
    each, of_workers = _mean(state, is_for_workers=False), _mean(state, is_for_workers=True)
    if each is None or of_workers is None:
        return None
    run, runs = state.run, _runs_to_look(state)
    if run is None:
        whole = state.numbers_of_workers * of_workers + runs * each
        return max(0.0, whole - (now - state.began))
    since = now - state.run_began
    if run.purpose is Purpose.WORKERS:
        return (1 + run.further) * max(of_workers, since) - since + runs * each
    return max(1, runs) * max(each, since) - since


def _mean(state: TrialState, *, is_for_workers: bool) -> float | None:
    took = [
        seconds for run, seconds in state.made if (run.purpose is Purpose.WORKERS) is is_for_workers
    ]
    return sum(took) / len(took) if took else state.run_seconds


def _runs_to_look(state: TrialState) -> int:
    """Runs until the next look without those that try numbers of workers; a running one counts."""
    if not state.makes_blocks:
        return runs_of(state.look) - sum(run.is_of_runs for run, _ in state.made)
    one_more = state.run is not None and state.run.purpose is Purpose.LOSSES
    made = sum(run.purpose is Purpose.BLOCKS for run, _ in state.made)
    return runs_of(state.look, state.pairs_of_run) - made + one_more
