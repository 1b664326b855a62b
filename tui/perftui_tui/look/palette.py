"""From the names of styles in rows to the colours of a theme, worked out once for each theme.

Component classes would do the same, but Textual matches every one of them for every widget at each
change of style: with 27 names that was a third of the time to show a screen.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.style import Style
from textual.color import Color

from perftui_tui.look.rows import PART_STYLES

BOLD = {"bold": "", "good": "good", "warn": "caution", "bad": "bad", "accent": "accent"}
"""Bold text and its colour, a variable of the theme; empty for the widget's own."""

PLAIN = {
    "dim": "dim",
    "insert": "good",
    "delete": "bad",
    "chart": "chart",
    "chart-warn": "caution",
    "chart-bad": "bad",
    "memory-before": "dim",
    "memory-parameters": "part-forward",
    "memory-optimizer": "part-optimizer",
    "memory-gradients": "part-backward",
    "memory-activations": "part-input-wait",
    "memory-temporary": "part-loader-start",
    "memory-other": "part-other",
}

ON_GROUND = {"key": "accent", "selected": "primary", "match": "caution"}
"""Text on a coloured ground."""

PART_GROUNDS = {
    "compute": "forward",
    "communication": "optimizer",
    "copies": "loader_start",
    "idle": "input_wait",
}
"""Parts of a trace's step have the colours of a run's: both are never shown in one bar."""


def palette(variables: Mapping[str, str]) -> Mapping[str, Style]:
    """A style for each name that a span may have, in the colours of the theme's ``variables``."""
    return _palette(tuple(sorted((name, variables[name]) for name in _needed())))


@lru_cache(maxsize=16)
def _palette(variables: tuple[tuple[str, str], ...]) -> Mapping[str, Style]:
    colours = {name: Color.parse(value).rich_color for name, value in variables}
    styles = {name: Style(bold=True, color=colours.get(of)) for name, of in BOLD.items()}
    styles |= {name: Style(color=colours[of]) for name, of in PLAIN.items()}
    text = colours["part-text"]
    styles |= {
        name: Style(bold=name != "match", color=text, bgcolor=colours[of])
        for name, of in ON_GROUND.items()
    }
    return styles | {
        f"part-{part}": Style(color=text, bgcolor=colours[_ground(part)]) for part in PART_STYLES
    }


def _needed() -> set[str]:
    named = {*BOLD.values(), *PLAIN.values(), *ON_GROUND.values()} - {""}
    return {*named, "part-text", *map(_ground, PART_STYLES)}


def _ground(part: str) -> str:
    return "part-" + PART_GROUNDS.get(part, part).replace("_", "-")
