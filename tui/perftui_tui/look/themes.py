"""Colour themes, the styles of spans (each coloured thing also carries a word), and ASCII alone."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.css.stylesheet import Stylesheet
from textual.filter import LineFilter
from textual.theme import Theme

from perftui.run.columns import PHASES

DEFAULT_THEME = "perftui-dark"

# On dark: Okabe and Ito's palette, distinct with every common form of colour blindness; the parts
# of a step that are drawn side by side are the pairs that differ most under deuteranopia. On light:
# the same hues darkened until white text on them, and they on white, reach a contrast of 4.5.
# Sixteen colours by name are what the terminal's own palette makes of them; each part has its own.
_COLOURS = {
    # name: on dark, on light, with high contrast, of sixteen
    "foreground": ("#e4e8ec", "#14181c", "#ffffff", "ansi_default"),
    "background": ("#101418", "#fafafa", "#000000", "ansi_default"),
    "surface": ("#161b20", "#f1f2f3", "#000000", "ansi_default"),
    "panel": ("#20272e", "#e3e6e9", "#1c1c1c", "ansi_default"),
    "primary": ("#56b4e9", "#0063a0", "#7fd4ff", "ansi_cyan"),
    "secondary": ("#2fb98f", "#00674a", "#00ff9c", "ansi_cyan"),
    "good": ("#2fb98f", "#00674a", "#00ff9c", "ansi_green"),
    "dim": ("#98a2ac", "#5a636c", "#d0d0d0", "ansi_default"),
    "caution": ("#e69f00", "#8a5a00", "#ffd000", "ansi_yellow"),
    "bad": ("#ff7f50", "#b03a00", "#ff80a0", "ansi_red"),
    "chart": ("#56b4e9", "#0063a0", "#7fd4ff", "ansi_cyan"),
    "part-text": ("#101418", "#ffffff", "#000000", "ansi_black"),
    "part-input-wait": ("#e69f00", "#8a5a00", "#ffd000", "ansi_yellow"),
    "part-loader-start": ("#f0e442", "#454000", "#fff7a8", "ansi_bright_yellow"),
    "part-forward": ("#56b4e9", "#0063a0", "#7fd4ff", "ansi_cyan"),
    "part-backward": ("#2fb98f", "#00674a", "#00ff9c", "ansi_green"),
    "part-optimizer": ("#cc79a7", "#94396d", "#ff9ad5", "ansi_magenta"),
    "part-profiler": ("#b9a7f0", "#5b3fb0", "#b9a7f0", "ansi_bright_blue"),
    "part-other": ("#a6adb4", "#555c63", "#ffffff", "ansi_white"),
    "footer-key-foreground": ("#e69f00", "#8a5a00", "#e69f00", "ansi_magenta"),
}

# Textual's own widgets ask an ANSI theme for these.
_OF_SIXTEEN = {
    "ansi-background": "ansi_black",
    "ansi-foreground": "ansi_white",
    "border-blurred": "ansi_black",
    "block-cursor-foreground": "ansi_black",
    "block-cursor-background": "ansi_white",
    "input-cursor-background": "ansi_black",
    "input-cursor-foreground": "ansi_bright_white",
    "input-cursor-text-style": "none",
    "input-selection-background": "ansi_bright_blue",
    "input-selection-foreground": "ansi_black",
    "screen-selection-background": "ansi_bright_blue",
    "screen-selection-foreground": "ansi_black",
}


def _theme(name: str, column: int) -> Theme:
    colours = {of: row[column] for of, row in _COLOURS.items()}
    is_ansi = name == "perftui-ansi"
    return Theme(
        name=name,
        primary=colours.pop("primary"),
        secondary=colours.pop("secondary"),
        accent=colours["caution"],
        foreground=colours.pop("foreground"),
        background=colours.pop("background"),
        surface=colours.pop("surface"),
        panel=colours.pop("panel"),
        boost="ansi_default" if is_ansi else None,
        warning=colours["caution"],
        error=colours["bad"],
        success=colours["good"],
        dark=name != "perftui-light",
        variables=colours | (_OF_SIXTEEN if is_ansi else {}),
        ansi=is_ansi,
    )


_NAMES = (DEFAULT_THEME, "perftui-light", "perftui-contrast", "perftui-ansi")
THEMES = tuple(_theme(name, column) for column, name in enumerate(_NAMES))


# Component classes would do the same, but Textual matches every one of them for every widget at
# each change of style: with 27 names that was a third of the time to show a screen.

BOLD = {"bold": "", "good": "good", "warn": "caution", "bad": "bad", "accent": "accent"}
"""Bold text and its colour, a variable of the theme; empty for the widget's own."""

PLAIN = {
    "dim": "dim",
    "insert": "good",
    "delete": "bad",
    "chart": "chart",
    "chart-warn": "caution",
    "chart-bad": "bad",
}

ON_GROUND = {"key": "accent", "selected": "primary", "match": "caution"}
"""Text on a coloured ground."""


def palette(variables: Mapping[str, str]) -> Mapping[str, Style]:
    """A style for each name that a span may have, in the colours of the theme's ``variables``."""
    names = {*BOLD.values(), *PLAIN.values(), *ON_GROUND.values()} - {""}
    names |= {"part-text", *map(_ground, PHASES)}
    return _palette(tuple(sorted((name, variables[name]) for name in names)))


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
    grounds = {part: colours[_ground(part)] for part in PHASES}
    styles |= {f"part-{part}": Style(color=text, bgcolor=of) for part, of in grounds.items()}
    return styles | {f"fill-{part}": Style(color=of) for part, of in grounds.items()}


def _ground(part: str) -> str:
    return "part-" + part.replace("_", "-")


class SteadyStylesheet(Stylesheet):
    """Keeps what it has parsed while the variables stay what they are.

    Textual parses all of it anew at each first visit to a screen and, before the first frame, two
    times more than it has to: a tenth of the time until that frame."""

    def __init__(self, variables: dict[str, str]) -> None:
        super().__init__(variables=variables)
        self._given = variables

    def set_variables(self, variables: dict[str, str]) -> None:
        """Forget what was parsed if one of ``variables`` has changed."""
        if variables != self._given:
            self._given = variables
            super().set_variables(variables)

    def reparse(self) -> None:
        """Parse what is new. Raises StylesheetParseError if it is not valid."""
        self.parse()


_OURS = (
    "▁▂▃▄▅▆▇█▏▎▍▌▋▊▉│─━╭╮╰╯●…·▶×→←↓↑░┤≤≥–µ↳°┌┐└┘┬├┴┼",
    "..:-=+*#||||###|--++++*~.>x><v^.|<>-u>'+++++|++",
)
_GLYPHS = dict(zip(*_OURS, strict=True)) | {
    "▔": "-", "▐": "|", "▕": "|", "┃": "|", "║": "|", "═": "=", "▲": "^", "▼": "v",
    "◀": "<", "►": ">", "◄": "<", "○": "o", "✓": "x", "✔": "x", "╷": "|", "╵": "|",
    "▀": "'", "■": "#", "□": ".", "🔎": "/ ", "⭘": "O", "—": "-", "’": "'", "▾": "-",
    "▸": "+", "▓": "@", "▒": "%", "▞": "/", "╲": "\\",
}  # fmt: skip
"""ASCII for the characters of our rows, and for those that Textual's own widgets draw with, on a
terminal font without block characters."""


_BRAILLE = 0x2800
"""The first pattern: each bit of what is added is a dot."""

_DOTS = " ..:::###"
"""ASCII for a pattern, by its number of dots."""


class AsciiFilter(LineFilter):
    """Draws each character with ASCII ones, as wide as it was; what has no likeness is ``?``."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        return [
            Segment(text if text.isascii() else "".join(map(_character, text)), style, control)
            for text, style, control in segments
        ]


@lru_cache(maxsize=4096)
def _character(character: str) -> str:
    if character.isascii():
        return character
    if _BRAILLE <= ord(character) < _BRAILLE + 256:
        return _DOTS[(ord(character) - _BRAILLE).bit_count()]
    return _GLYPHS.get(character, "?" * cell_len(character))
