"""`perftui compare BEFORE AFTER`: one run or trace against another."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from perftui_tui.commands.line import BEHIND, CommandLine, UsageError
from perftui_tui.commands.output import DONE, INCONCLUSIVE, NO_DIFFERENCE, SLOWER, write_result
from perftui_tui.commands.target import Target, find_target, subject_of

if TYPE_CHECKING:
    from perftui.experiments.comparison import Comparison


def compare(line: CommandLine) -> int:
    """Print which of two runs or traces is faster, by how much, and whether that means anything."""
    from perftui.experiments.comparison import Verdict
    from perftui.experiments.comparison import compare as compared
    from perftui.facts.fact import Facts
    from perftui.report.comparison import as_object, brief_object, brief_text, text

    sides = _sides(line)
    subjects = [subject_of(_target(line, side[0])) for side in sides]
    first, second = (Facts(subject.run, subject.analysis) for subject in subjects)
    result = _repeats(compared(first, second), line, sides)
    forms = (brief_object, brief_text) if "brief" in line.flags else (as_object, text)
    write_result(line.flags, *forms, result)
    return {
        Verdict.FASTER: DONE,
        Verdict.SLOWER: SLOWER,
        Verdict.NO_CLEAR_DIFFERENCE: NO_DIFFERENCE,
        Verdict.INCONCLUSIVE: INCONCLUSIVE,
    }[result.verdict]


def _sides(line: CommandLine) -> tuple[list[str], list[str]]:
    """The words of each side: one each, or several with ``--`` between."""
    words = list(line.words)
    if BEHIND in words:
        at = words.index(BEHIND)
        sides = words[:at], words[at + 1 :]
    else:
        sides = words[:1], words[1:2]
    if not all(sides) or BEHIND in sides[1] or (BEHIND not in words and len(words) != 2):
        raise UsageError(
            "compare takes two runs or traces, perftui compare BEFORE AFTER, or several runs each, "
            "perftui compare BEFORE... -- AFTER..."
        )
    return sides


def _target(line: CommandLine, word: str) -> Target:
    return find_target(replace(line, words=(word,)))


def _repeats(
    result: Comparison, line: CommandLine, sides: tuple[list[str], list[str]]
) -> Comparison:
    """``result`` with the repeats that are named, else with all runs that repeat the two."""
    from perftui.experiments.comparison import with_repeats
    from perftui.experiments.history import found_repeats, past_run, repeats_of

    if max(map(len, sides)) > 1:
        if result.of_traces:
            raise UsageError("compare takes several runs of each side, but one trace")
        first, second = ([_target(line, word).path for word in side] for side in sides)
        return with_repeats(result, repeats_of(first, second))
    if result.of_traces or "no-repeats" in line.flags:
        return result
    return with_repeats(result, found_repeats(past_run(result.before), past_run(result.after)))
