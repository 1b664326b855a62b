"""What is shown and asked before a fix is tried or written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from perftui.fixes.model import FixOption, Patch, Risk
from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose, yes_or_no
from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import Row, row


class RunAgainDialog(ChoiceDialog):
    """Asks before a training is started again. Returns YES or NO."""

    def __init__(self, label: str, command: Sequence[str], warnings: Sequence[str] = ()) -> None:
        body = [row("With ", (label, "bold")), *_what_runs(command, warnings)]
        super().__init__("Run again?", body, yes_or_no(("enter", "y"), "run it", "not now"))


PAIRS = "pairs"
"""The answer to prove a fix by pairs of runs."""

MOST_RISKS = 3
"""So many can be read before a key is pressed; the others stand on the Diagnosis screen."""


class TryDialog(ChoiceDialog):
    """Asks how a fix is tried. Returns YES for one run, PAIRS, or NO.

    ``pairs`` is what pairs of runs take, empty where there can be none; ``note`` says more of it,
    or why. ``finding`` is what the fix is for, empty where that is plain."""

    def __init__(
        self,
        option: FixOption,
        command: Sequence[str],
        pairs: str,
        note: str,
        warnings: Sequence[str] = (),
        finding: str = "",
    ) -> None:
        title = row((option.title, "bold"), (f"   for {finding}" if finding else "", "dim"))
        body = [title, *_what_runs(command, warnings)]
        one, no = yes_or_no(("enter", "y"), "one run with it, compared with this one", "not now")
        proof = (Choice(("p",), f"prove it: {pairs}", PAIRS),) if pairs else ()
        below = [*short_risks(option.risks), Prose(note), Prose(option.explanation, "dim")]
        super().__init__("Run again?", body, (one, *proof, no), below)


def _what_runs(command: Sequence[str], warnings: Sequence[str]) -> list[Row | Prose]:
    return [Prose(shlex.join(command)), *(Prose(warning, "warn") for warning in warnings)]


NOT_MEASURED = "its gain has not been measured by pairs of runs"


class WriteDialog(ChoiceDialog):
    """Shows a patch as a diff before it is written, with its measured gain. Returns YES or NO."""

    def __init__(self, option: FixOption, patch: Patch, gain: str = "") -> None:
        measured = row((gain, "bold")) if gain else row((NOT_MEASURED, "warn"))
        where = row((str(patch.path), "dim"))
        body = [row((option.title, "bold")), measured, where, (), *diff_rows(patch)]
        yes = hint("write it to the source; {diagnosis.undo_fix} undoes it")
        choices = yes_or_no(("enter",), yes, "leave the source unchanged")
        super().__init__("Write the fix?", body, choices)


class UndoDialog(ChoiceDialog):
    """Shows what taking a fix back would change. Returns YES or NO."""

    def __init__(self, title: str, patch: Patch) -> None:
        body = [row(("undo ", "dim"), (title, "bold")), row((str(patch.path), "dim")), ()]
        choices = yes_or_no(("enter",), "undo it", "leave the source unchanged")
        super().__init__("Undo the fix?", [*body, *diff_rows(patch)], choices)


def short_risks(risks: Sequence[Risk]) -> list[Prose]:
    """A row for each risk of a fix, of many the first."""
    if len(risks) <= MOST_RISKS:
        return [risk((each,)) for each in risks] or [risk(())]
    more = len(risks) - MOST_RISKS + 1
    shown = [risk((each,)) for each in risks[: MOST_RISKS - 1]]
    return [*shown, Prose(f"{more} more: see the Diagnosis screen", "warn", " " * 6, "Risk")]


def risk(risks: Sequence[Risk], indent: str = "") -> Prose:
    """The risks of a fix."""
    label = f"{indent}Risk  "
    if not risks:
        return Prose("none known: results stay the same", "good", " " * len(label), label)
    names = ", ".join(each.value for each in risks)
    return Prose(names, "warn", " " * len(label), label)


def diff_rows(patch: Patch) -> list[Row]:
    """The unified diff, with removed and added lines in colour."""
    styles = {"+": "insert", "-": "delete", "@": "dim"}
    lines = patch.diff().split("\n")
    # The sign in front is no part of the line: tabs go to where they go in the source.
    shown = (line[:1] + line[1:].expandtabs() for line in lines)
    return [row((line, styles.get(line[:1], ""))) for line in shown]
