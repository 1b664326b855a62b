"""Which keys work where: bindings and help from the table of keys, and the person's own keys."""

from __future__ import annotations

import re
import sys
import unicodedata
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING

from textual.binding import Binding, BindingType
from textual.keys import KEY_NAME_REPLACEMENTS, format_key

from perftui.format import did_you_mean
from perftui.run.files import user_directory
from perftui_tui.keys.all_keys import KEYS, SCREENS, Key

if TYPE_CHECKING:
    from perftui_tui.reading.snapshot import Snapshot

MODIFIERS = ("ctrl", "alt", "shift", "super")
_MOVES = ("up", "down", "left", "right", "home", "end", "pageup", "pagedown")
_TYPING = ("enter", "escape", "tab", "space", "backspace", "delete", "insert")
NAMED = {*_MOVES, *_TYPING} | {f"f{number}" for number in range(1, 25)}
"""Keys written by a name; all others are written as the character they type."""


@dataclass(frozen=True)
class Overrides:
    """The person's keys that can be used, by the names of actions, and why the rest cannot."""

    keys: Mapping[str, tuple[str, ...]]
    """The new keys of an action, as Textual names them."""
    complaints: tuple[str, ...] = ()


NO_OVERRIDES = Overrides({})


def check(wanted: Mapping[str, Sequence[str]]) -> Overrides:
    """Leave out what names no action or no key, and what would give one key two meanings."""
    actions = {key.name: key for key in KEYS}
    accepted: dict[str, tuple[str, ...]] = {}
    complaints: list[str] = []
    for name, keys in wanted.items():
        if name not in actions:
            complaints.append(f"there is no action {name}.{did_you_mean(name, actions)}")
            continue
        spelled = [key_name(key) for key in keys]
        odd = [key for key, textual in zip(keys, spelled, strict=True) if textual is None]
        if odd:
            complaints.append(f"{name}: there is no key {', '.join(map(repr, odd))}")
        elif not spelled:
            complaints.append(f"{name}: no key given, so it keeps its default")
        else:
            accepted[name] = tuple(key for key in spelled if key)
    while clash := next(_clashes(accepted), None):
        key, names = clash
        given_back = [name for name in names if name in accepted]
        for name in given_back:
            del accepted[name]
        both = " and ".join(names)
        whose = " and ".join(given_back)
        complaints.append(f"{key_in_file(key)} would be both {both}, so {whose} keeps its default")
    return Overrides(accepted, tuple(complaints))


def key_name(text: str) -> str | None:
    """Textual's name of a key that a person writes, such as ``ctrl+f``; None if it is no key."""
    before, last = (text[:-2], "+") if text[-1:] == "+" else text.rpartition("+")[::2]
    modifiers = before.split("+") if before else []
    if len(set(modifiers)) < len(modifiers) or not set(modifiers) <= set(MODIFIERS):
        return None
    if len(last) == 1 and not last.isalnum():
        name = unicodedata.name(last, "").lower().replace("-", "_").replace(" ", "_")
        last = KEY_NAME_REPLACEMENTS.get(name, name)
    elif len(last) != 1 and last not in NAMED and key_in_file(last) == last:
        return None
    return "+".join([*sorted(modifiers), last]) if last else None


def key_in_file(key: str) -> str:
    """A key as the file has it: the character that it types, where it types one."""
    before, plus, last = key.rpartition("+")
    return key if last in NAMED else f"{before}{plus}{format_key(last)}"


def _clashes(accepted: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[str, list[str]]]:
    """Keys that would mean two things in one place, each with the names of the actions."""
    for place in _places():
        owners: dict[str, list[str]] = {}
        by_default: dict[str, set[str]] = defaultdict(set)
        for key in place:
            for typed in key.keys.split(","):
                by_default[typed].add(key.name)
            for typed in accepted.get(key.name, tuple(key.keys.split(","))):
                if key.name not in (names := owners.setdefault(typed, [])):
                    names.append(key.name)
        for typed, names in owners.items():
            # A part of a screen may give a key of the screen another meaning; own keys may not.
            if len(names) > 1 and not set(names) <= by_default[typed]:
                yield typed, names


def _places() -> Iterator[list[Key]]:
    """Keys that work at the same time: those of a screen and its parts with the app's."""
    everywhere = [key for key in KEYS if key.scope == "app"]
    for screen in SCREENS:
        yield [*everywhere, *(key for key in KEYS if key.scope.partition(".")[0] == screen)]
    for scope in sorted({key.scope for key in KEYS if key.scope.startswith("app.")}):
        yield [key for key in KEYS if key.scope == scope]


HEAD = """\
# The keys of perftui. Copy the lines that you want to change to
# {path}
# A key is the character it types, or a name: "enter", "pageup", "ctrl+f", "shift+left".
"""


def key_file() -> Path:
    """The path of the file, by the XDG rules."""
    return user_directory("XDG_CONFIG_HOME", ".config") / "keys.toml"


def read_overrides(path: Path) -> Overrides:
    """The keys in the file; errors in it become complaints, and are never raised."""
    try:
        content = path.read_bytes().decode()
    except FileNotFoundError:
        return Overrides({})
    except (OSError, UnicodeDecodeError) as error:
        return Overrides({}, (f"your keys in {path} cannot be read: {error}",))
    # Few people have such a file, and the first frame waits for it.
    if sys.version_info >= (3, 11):
        import tomllib
    else:
        import tomli as tomllib
    try:
        table = tomllib.loads(content)
    except tomllib.TOMLDecodeError as error:
        return Overrides({}, (f"your keys in {path} are not valid TOML: {error}",))
    wanted: dict[str, tuple[str, ...]] = {}
    complaints: list[str] = []
    for name, value in _flat(table):
        keys = (value,) if isinstance(value, str) else value
        if isinstance(keys, (list, tuple)) and all(isinstance(key, str) for key in keys):
            wanted[name] = tuple(keys)
        else:
            complaints.append(f"{name} needs a key, or a list of keys, in quotes")
    result = check(wanted)
    return Overrides(result.keys, (*complaints, *result.complaints))


def _flat(table: Mapping[str, object], before: str = "") -> Iterator[tuple[str, object]]:
    for name, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value


def file_text(overrides: Overrides, path: Path) -> str:
    """All keys in the form of the file, with what each does."""
    lines = [HEAD.format(path=path)]
    for scope, group in groupby(KEYS, key=lambda key: key.scope):
        # Quoted: a part of a screen may have the name of one of its actions.
        lines.append(f'["{scope}"]' if "." in scope else f"[{scope}]")
        rows = []
        for key in group:
            keys = overrides.keys.get(key.name, tuple(key.keys.split(",")))
            names = (key_in_file(one).replace("\\", "\\\\").replace('"', '\\"') for one in keys)
            shown = ", ".join(f'"{name}"' for name in names)
            rows.append((f'"{key.action}" = [{shown}]', key.help))
        width = max(len(line) for line, _ in rows)
        lines += [f"{line:<{width}}  # {text}" for line, text in rows]
        lines.append("")
    return "\n".join(lines).rstrip()


NEEDS_A_RUN = {"try_fix", "prove_fix", "tune", "write_fix", "undo_fix", "rerun", "playback"}
NEEDS_A_RUN_NOW = frozenset({"capture", "pause"})


def useless_actions(snapshot: Snapshot | None) -> frozenset[str]:
    """Actions without effect on what is shown: a trace, an ended run, nothing to fix, no gaps."""
    if snapshot is None:
        return frozenset()
    useless = frozenset() if snapshot.goes_on else NEEDS_A_RUN_NOW
    if snapshot.goes_on or not snapshot.train_steps:
        useless |= {"playback"}
    if snapshot.run is None:
        useless |= NEEDS_A_RUN
    options = [option for fixes in snapshot.options.values() for option in fixes]
    if not any(option.is_triable for option in options):
        useless |= {"try_fix", "prove_fix", "tune"}
    if not any(option.patch and not option.is_written for option in options):
        useless |= {"write_fix"}
    has_gaps = snapshot.analysis is not None and bool(snapshot.analysis.gaps)
    return useless if has_gaps else useless | {"show_gap"}


_current: tuple[Key, ...] = KEYS


def use(overrides: Overrides) -> None:
    """Take a person's own keys for all that is shown from now on; the app binds them itself."""
    global _current
    _current = tuple(
        replace(key, keys=",".join(own), shown_as=key_in_file(own[0]))
        if (own := overrides.keys.get(key.name))
        else key
        for key in KEYS
    )


def current_keys() -> tuple[Key, ...]:
    """The table with a person's own keys."""
    return _current


def shown_key(name: str) -> str:
    """How the key of an action is written in a hint; ``name`` as in ``ops.filter``."""
    return next(key.display for key in _current if key.name == name)


_NAMED = re.compile(r"\{([a-z_]+(?:\.[a-z_]+)+(?:\([^{}]*\))?)\}")
"""An action in a hint, as in ``{app.show('log')}``."""


def hint(text: str) -> str:
    """``text`` with the key of each action that is named in braces: ``{ops.filter} filters``."""
    return _NAMED.sub(lambda match: shown_key(match[1]), text)


def keys_of(scope: str) -> tuple[Key, ...]:
    """The rows of the table for one scope."""
    return tuple(key for key in _current if key.scope == scope)


def keys_on(screen: str) -> tuple[Key, ...]:
    """The rows of the table for a screen and all its parts."""
    return tuple(key for key in _current if key.scope.partition(".")[0] == screen)


def bindings(scope: str) -> list[BindingType]:
    """The bindings of one scope; their ids are what own keys replace them by."""
    return [
        Binding(
            key.keys,
            key.action,
            key.label,
            show=key.in_footer,
            key_display=key.display,
            priority=key.priority,
            tooltip=key.help,
            id=key.name,
        )
        for key in KEYS
        if key.scope == scope
    ]
