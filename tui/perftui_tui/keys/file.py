"""The file of a person's own keys: ``~/.config/perftui/keys.toml``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from itertools import groupby
from pathlib import Path

from perftui_tui.keys.overrides import Overrides, check, written
from perftui_tui.keys.table import KEYS

HEAD = """\
# The keys of perftui. Copy the lines that you want to change to
# {path}
# A key is the character it types, or a name: "enter", "pageup", "ctrl+f", "shift+left".
"""


def key_file() -> Path:
    """Where the file is looked for, by the XDG rules."""
    base = os.environ.get("XDG_CONFIG_HOME", "")
    folder = Path(base) if base and Path(base).is_absolute() else Path.home() / ".config"
    return folder / "perftui" / "keys.toml"


def read_overrides(path: Path) -> Overrides:
    """What the file asks for; errors in it become complaints, and are never raised."""
    try:
        content = path.read_bytes().decode()
    except FileNotFoundError:
        return Overrides({})
    except (OSError, UnicodeDecodeError) as error:
        return Overrides({}, (f"your keys in {path} cannot be read: {error}",))
    # Few have such a file, and the first frame waits for what it says.
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
    found = check(wanted)
    return Overrides(found.keys, (*complaints, *found.complaints))


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
        # Quoted: a part of a screen may be called as one of its actions is.
        lines.append(f'["{scope}"]' if "." in scope else f"[{scope}]")
        rows = []
        for key in group:
            keys = overrides.keys.get(key.name, tuple(key.keys.split(",")))
            shown = ", ".join(f'"{_escaped(written(one))}"' for one in keys)
            rows.append((f'"{key.action}" = [{shown}]', key.help))
        width = max(len(line) for line, _ in rows)
        lines += [f"{line:<{width}}  # {text}" for line, text in rows]
        lines.append("")
    return "\n".join(lines).rstrip()


def _escaped(key: str) -> str:
    return key.replace("\\", "\\\\").replace('"', '\\"')
