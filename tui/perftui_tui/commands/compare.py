"""`perftui compare BEFORE AFTER`: one run or trace against another."""

from __future__ import annotations

from dataclasses import replace

from perftui_tui.commands.exit_codes import DONE, INCONCLUSIVE, NO_DIFFERENCE, SLOWER
from perftui_tui.commands.line import CommandLine, UsageError
from perftui_tui.commands.output import write, write_object
from perftui_tui.commands.target import find_target


def compare(line: CommandLine) -> int:
    """Print which of two runs or traces is faster, by how much, and whether that means anything.

    Raises:
        UsageError: two are not named, or cannot be read.
    """
    from perftui.experiments.comparison import Verdict
    from perftui.experiments.comparison import compare as compared
    from perftui.facts.fact import Facts
    from perftui.report.comparison import as_object, brief_object, brief_text, text
    from perftui.report.subject import SubjectError, load_subject

    if len(line.words) != 2:
        raise UsageError("compare takes two runs or traces: perftui compare BEFORE AFTER")
    facts = []
    for word in line.words:
        try:
            subject = load_subject(find_target(replace(line, words=(word,))).path)
        except (SubjectError, OSError) as error:
            raise UsageError(str(error)) from error
        facts.append(Facts(subject.run, subject.analysis))
    found = compared(*facts)
    brief = "brief" in line.flags
    if "json" in line.flags:
        write_object(brief_object(found) if brief else as_object(found), brief=brief)
    else:
        write(brief_text(found) if brief else text(found))
    return {
        Verdict.FASTER: DONE,
        Verdict.SLOWER: SLOWER,
        Verdict.NO_CLEAR_DIFFERENCE: NO_DIFFERENCE,
        Verdict.INCONCLUSIVE: INCONCLUSIVE,
    }[found.verdict]
