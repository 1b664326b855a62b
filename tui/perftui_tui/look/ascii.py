"""Nothing but ASCII on terminals whose fonts or encodings have no more: frames, footer, all."""

from __future__ import annotations

from functools import lru_cache

from rich.cells import cell_len
from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

ASCII_GLYPHS = str.maketrans(
    "▁▂▃▄▅▆▇█▏▎▍▌▋▊▉│─━╭╮╰╯●…·▶×→←↓↑░┤≤≥–µ↳°┌┐└┘┬├┴┼",
    "..:-=+*#||||###|--++++*~.>x><v^.|<>-u>'+++++|++",
)
"""ASCII for the characters of our rows, on a terminal font without block characters."""

_OTHERS = {
    "▔": "-", "▐": "|", "▕": "|", "┃": "|", "║": "|", "═": "=", "┼": "+", "▲": "^", "▼": "v",
    "▶": ">", "◀": "<", "►": ">", "◄": "<", "○": "o", "✓": "x", "✔": "x", "╷": "|", "╵": "|",
    "▀": "'", "▄": ".", "■": "#", "□": ".", "🔎": "/ ", "⭘": "O", "—": "-", "’": "'", "▾": "-",
    "▸": "+", "▓": "@", "▒": "%", "▞": "/", "╲": "\\",
}  # fmt: skip
"""ASCII for the characters that Textual's own widgets draw with, on such a font."""


_BRAILLE = 0x2800
"""The first pattern: each bit of what is added is a dot."""

_DOTS = " ..:::###"
"""ASCII for a pattern, by its number of dots."""


class AsciiFilter(LineFilter):
    """Draws each character with ASCII ones, as wide as it was; what has no likeness is ``?``."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 - Textual's signature
        """The segments in ASCII."""
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
    similar = character.translate(ASCII_GLYPHS)
    return similar if similar.isascii() else _OTHERS.get(character, "?" * cell_len(character))
