"""A comparison of two runs beside the repeats of both: with pairs enough it has an interval."""

from __future__ import annotations

from dataclasses import replace

from perftui import format as fmt
from perftui.experiments.comparison import Comparison, Verdict
from perftui.experiments.comparison_notes import ONE_RUN_EACH
from perftui.experiments.repeats import Repeats
from perftui.experiments.trial.verdict import Outcome

_OF_TRIAL = {
    Outcome.FASTER: Verdict.FASTER,
    Outcome.SLOWER: Verdict.SLOWER,
    Outcome.NO_DIFFERENCE: Verdict.NO_CLEAR_DIFFERENCE,
    Outcome.INCONCLUSIVE: Verdict.INCONCLUSIVE,
}


def with_repeats(found: Comparison, repeats: Repeats) -> Comparison:
    """``found`` beside other runs of both sides.

    With pairs enough they decide, as those of a trial; what forbids the comparison of the two still
    does.
    """
    if min(len(repeats.before), len(repeats.after)) < 1 or len(repeats.ratios) < 1:
        return found
    if max(len(repeats.before), len(repeats.after)) == 1 and not repeats.left_out:
        return found
    notes = (*repeats.notes, *(note for note in found.notes if note != ONE_RUN_EACH))
    named = replace(found, repeats=repeats, notes=notes)
    verdict = repeats.verdict
    if verdict.estimate is None or found.verdict is Verdict.INCONCLUSIVE:
        return named
    word = _OF_TRIAL[verdict.outcome]
    reason = f"{verdict.headline}, by {fmt.several(verdict.estimate.pairs, 'pair')} of runs"
    return replace(named, verdict=word, reason=reason, speedup=verdict.estimate.ratio)
