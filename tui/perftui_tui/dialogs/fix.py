"""What is shown and asked before a fix is tried or written."""

from __future__ import annotations

import shlex
from collections.abc import Sequence

from perftui.fixes.model import FixOption, Patch, Risk
from perftui_tui.dialogs.choice import ChoiceDialog, Prose, yes_or_no
from perftui_tui.keys.keymap import hint
from perftui_tui.look.rows import Row, row


class TrialDialog(ChoiceDialog):
    """Asks before a training is started again. Returns YES or NO."""

    def __init__(
        self, change: Sequence[Row | Prose], command: Sequence[str], is_running: bool
    ) -> None:
        body = [*change, (), row(("Command", "bold")), Prose(shlex.join(command), indent="  ")]
        if is_running:
            warning = "The running training is stopped first: two at once would disturb each other."
            body += [(), Prose(warning, "warn")]
        super().__init__("Run again?", body, yes_or_no(("enter", "y"), "run it", "not now"))


class WriteDialog(ChoiceDialog):
    """Shows a patch as a diff before it is written. Returns YES or NO."""

    def __init__(self, option: FixOption, patch: Patch) -> None:
        body = [row((option.title, "bold")), row((str(patch.path), "dim")), (), *diff_rows(patch)]
        yes = hint("write it to the source; {diagnosis.undo_fix} undoes it")
        choices = yes_or_no(("enter",), yes, "leave the source as it is")
        super().__init__("Write the fix?", body, choices)


class UndoDialog(ChoiceDialog):
    """Shows what taking a fix back would change. Returns YES or NO."""

    def __init__(self, title: str, patch: Patch) -> None:
        body = [row(("undo ", "dim"), (title, "bold")), row((str(patch.path), "dim")), ()]
        choices = yes_or_no(("enter",), "take it back", "leave the source as it is")
        super().__init__("Undo the fix?", [*body, *diff_rows(patch)], choices)


def describe(option: FixOption) -> list[Row | Prose]:
    """A fix before it is tried: what changes, why, at which risk."""
    return [row((option.title, "bold")), Prose(option.explanation), risk(option.risks)]


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
