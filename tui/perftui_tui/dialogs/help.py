"""The help panel: this screen, the pane that has the focus, all keys, and every number."""

from __future__ import annotations

from textual.widget import Widget

from perftui.trace.text import printable
from perftui_tui.dialogs.choice import Choice, ChoiceDialog, Prose
from perftui_tui.keys.all_keys import Key
from perftui_tui.keys.help_texts import BY_SCREEN, PANES, Entry
from perftui_tui.keys.own_keys import hint, keys_of, keys_on, shown_key
from perftui_tui.look.rows import Row, row
from perftui_tui.reading.snapshot import Snapshot


class HelpDialog(ChoiceDialog):
    """Help for one screen; ``pane`` is the scope of the part that has the focus, ``snapshot``
    what is on screen."""

    def __init__(
        self, screen: str, text: str, pane: str = "", snapshot: Snapshot | None = None
    ) -> None:
        again = shown_key("app.help")
        choices = (Choice(("escape", "question_mark", "?", "q", "f1", again), "close", "close"),)
        entry = PANES.get(pane)
        focused = (*_entry(entry), ()) if entry is not None else ()
        body = (
            Prose(hint(text)),
            (),
            *focused,
            *help_rows(screen),
            *metric_rows(screen),
            *missing_rows(screen, snapshot),
            *rule_rows(screen),
        )
        super().__init__(f"Help: {screen}", body, choices)


def pane_of(focused: Widget | None) -> str:
    """The scope of the part that has the focus, by the names of its bindings; empty for none."""
    for node in focused.ancestors_with_self if focused is not None else ():
        for binding in node._bindings.key_to_bindings.values():
            scope = (binding[0].id or "").removesuffix(f".{binding[0].action}")
            if scope in PANES:
                return scope
    return ""


def help_rows(screen: str) -> list[Row]:
    """The keys of the screen, then those that work everywhere."""
    own = [_key(key) for key in keys_on(screen)]
    return [
        *([row(("On this screen", "bold")), *own, ()] if own else []),
        row(("Everywhere", "bold")),
        *(_key(key) for key in keys_of("app")),
        row(("  ctrl+p     ", "accent"), "Command palette: all commands and themes"),
        (),
        row(("While a saved run is played", "bold")),
        *(_key(key) for key in keys_of("app.bar")),
        (),
        row(("In charts", "bold")),
        *(_key(key) for key in keys_of("app.study")),
    ]


def missing_rows(screen: str, snapshot: Snapshot | None) -> list[Row | Prose]:
    """What the Overview cannot show of the machine of the run, and why; nothing elsewhere."""
    from perftui.facts.gpu.cards import not_sampled

    missing = snapshot.ask(not_sampled) if snapshot is not None and screen == "overview" else None
    if not missing:
        return []
    told = (Prose(printable(f"{name}: {reason}.")) for name, reason in sorted(missing.items()))
    return [row(("Not sampled on this machine", "bold")), *told, ()]


def metric_rows(screen: str) -> list[Row | Prose]:
    """What each number of the screen means."""
    entries = BY_SCREEN[screen]
    title: list[Row | Prose] = [(), row(("What the numbers mean", "bold"))] if entries else []
    return [*title, *(line for entry in entries for line in _entry(entry))]


def rule_rows(screen: str) -> list[Row | Prose]:
    """What the rules look for, on the screen that shows their findings."""
    if screen != "diagnosis":
        return []
    from perftui.diagnosis.rules import BY_NAME

    title: list[Row | Prose] = [(), row(("What it looks for", "bold"))]
    for rule in BY_NAME.values():
        limits = rule.limits
        from_what = f" Warns from {100 * limits.warning:.0f} % {limits.of}." if limits else ""
        answer = f" What to do: {rule.answer}." if rule.answer else ""
        text = f"{rule.when}.{from_what}{answer}"
        title += [row((rule.id, "accent")), Prose(text, indent="  ")]
    return title


def _entry(entry: Entry) -> tuple[Row | Prose, ...]:
    return row((entry.name, "accent")), Prose(hint(entry.text), indent="  ")


def _key(key: Key) -> Row:
    return row((f"  {key.display:<11}", "accent"), key.help)
