"""What the terminal can do, found out before anything is drawn."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping

from perftui_tui.commands.line import CommandLine

ASCII_TERMINALS = ("linux", "vt100", "vt102", "vt220", "ansi")
"""Terminals whose fonts have no eighth blocks."""


def why_headless(line: CommandLine) -> str | None:
    """Why the app cannot or shall not be shown; None where it can."""
    if "headless" in line.flags:
        return ""
    if not sys.stdin.isatty():
        return "the input is not a terminal"
    if not sys.stdout.isatty():
        return "the output is not a terminal"
    if os.environ.get("TERM", "dumb") == "dumb":
        return "the terminal shows plain text only (TERM=dumb)"
    return None


def draws_ascii(line: CommandLine) -> bool:
    """Whether only ASCII is safe: asked for, or the terminal or its encoding has no blocks."""
    encoding = (getattr(sys.stdout, "encoding", "") or "").lower().replace("-", "")
    return (
        "ascii" in line.flags or os.environ.get("TERM", "") in ASCII_TERMINALS or encoding != "utf8"
    )


def theme_name(line: CommandLine) -> str:
    """The theme asked for; else the terminal's own palette where it is to show no colours
    (NO_COLOR), or has sixteen of them: ours would be mapped to them one by one, several to the
    same."""
    if "theme" in line.values:
        return f"perftui-{line.values['theme']}"
    is_plain = os.environ.get("NO_COLOR") or has_sixteen_colours(os.environ)
    return "perftui-ansi" if is_plain else "perftui-dark"


def has_sixteen_colours(environment: Mapping[str, str]) -> bool:
    """Whether nothing is known of the terminal but that it has colours."""
    if environment.get("COLORTERM", "").strip().lower() in ("truecolor", "24bit"):
        return False
    return environment.get("TERM", "").rpartition("-")[2] not in ("256color", "kitty", "direct")


def splash() -> None:
    """Something on the screen while the framework is imported, which takes a quarter second."""
    sys.stdout.write("\x1b[?1049h\x1b[2J\x1b[Hperftui is starting...")
    sys.stdout.flush()


def leave_splash() -> None:
    """Back to the screen that the command was typed on."""
    sys.stdout.write("\x1b[?1049l")
    sys.stdout.flush()
