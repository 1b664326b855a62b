"""A terminal screen as a PNG, cell by cell: blocks and boxes are drawn, not looked up in a font.

Converters of SVG collapse blanks or drift off the grid; drawing the cells keeps every chart exact.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont
from rich.cells import cell_len
from rich.color import Color
from rich.segment import Segment
from rich.style import Style
from rich.terminal_theme import TerminalTheme

WIDTH, HEIGHT, FONT_SIZE = 10, 20, 16
FONTS = (
    "/usr/share/fonts/truetype/dejavu/DejaVuSansMono{}.ttf",
    "/usr/share/fonts/TTF/DejaVuSansMono{}.ttf",
    "/Library/Fonts/DejaVuSansMono{}.ttf",
)
LOWER, LEFT = " ▁▂▃▄▅▆▇█", " ▏▎▍▌▋▊▉█"
# Light box drawing as arms from the middle: up, right, down, left.
ARMS = {
    "─": "0101", "│": "1010", "┌": "0110", "┐": "0011", "└": "1100", "┘": "1001", "╭": "0110",
    "╮": "0011", "╰": "1100", "╯": "1001", "├": "1110", "┤": "1011", "┬": "0111", "┴": "1101",
    "┼": "1111", "╷": "0010", "━": "0101",
}  # fmt: skip
DOTS = ((0, 0), (0, 1), (0, 2), (1, 0), (1, 1), (1, 2), (0, 3), (1, 3))
"""Columns and rows of the dots of a braille character, by bit."""

Pixel = tuple[int, int, int]


def load_font(bold: bool) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """DejaVu Sans Mono where it is installed, else Pillow's own font."""
    for pattern in FONTS:
        path = pattern.format("-Bold" if bold else "")
        if Path(path).is_file():
            return ImageFont.truetype(path, FONT_SIZE)
    return ImageFont.load_default(FONT_SIZE)


class Painter:
    """Draws the rows of one screen."""

    def __init__(self, columns: int, rows: int, theme: TerminalTheme) -> None:
        self._theme = theme
        self.image = Image.new("RGB", (columns * WIDTH, rows * HEIGHT), theme.background_color)
        self._draw = ImageDraw.Draw(self.image)
        self._fonts = {bold: load_font(bold) for bold in (False, True)}

    def row(self, y: int, segments: Iterable[Segment]) -> None:
        """Draw the segments of one row from left to right."""
        x = 0
        for text, style, _ in segments:
            for character in text:
                self._cell(x, y, character, style or Style.null())
                x += cell_len(character)

    def _cell(self, x: int, y: int, character: str, style: Style) -> None:
        front = self._colour(style.color, foreground=True)
        back = self._colour(style.bgcolor, foreground=False)
        if style.reverse:
            front, back = back, front
        left, top = x * WIDTH, y * HEIGHT
        cells = max(1, cell_len(character))
        self._draw.rectangle((left, top, left + cells * WIDTH - 1, top + HEIGHT - 1), back)
        if not character.isspace():
            self._glyph(left, top, character, front, bool(style.bold))

    def _colour(self, colour: Color | None, *, foreground: bool) -> Pixel:
        if colour is None or colour.is_default:
            return self._theme.foreground_color if foreground else self._theme.background_color
        red, green, blue = colour.get_truecolor(self._theme, foreground)
        return red, green, blue

    def _glyph(self, left: int, top: int, character: str, colour: Pixel, bold: bool) -> None:
        if character in LOWER:
            filled = round(HEIGHT * LOWER.index(character) / 8)
            self._fill(left, top + HEIGHT - filled, WIDTH, filled, colour)
        elif character in LEFT:
            self._fill(left, top, max(1, WIDTH * LEFT.index(character) // 8), HEIGHT, colour)
        elif character in ARMS:
            self._arms(left, top, ARMS[character], colour)
        elif 0x2800 <= ord(character) <= 0x28FF:
            self._braille(left, top, ord(character) - 0x2800, colour)
        else:
            font = self._fonts[bold]
            self._draw.text((left, top + 1), character, fill=colour, font=font)

    def _fill(self, left: int, top: int, width: int, height: int, colour: Pixel) -> None:
        self._draw.rectangle((left, top, left + width - 1, top + height - 1), colour)

    def _arms(self, left: int, top: int, arms: str, colour: Pixel) -> None:
        middle_x, middle_y = left + WIDTH // 2, top + HEIGHT // 2
        ends = (
            (middle_x, top),
            (left + WIDTH - 1, middle_y),
            (middle_x, top + HEIGHT - 1),
            (left, middle_y),
        )
        for arm, end in zip(arms, ends, strict=True):
            if arm == "1":
                self._draw.line(((middle_x, middle_y), end), colour)

    def _braille(self, left: int, top: int, bits: int, colour: Pixel) -> None:
        for bit, (column, line) in enumerate(DOTS):
            if bits & (1 << bit):
                x, y = left + 1 + column * WIDTH // 2, top + 1 + line * HEIGHT // 4
                self._fill(x, y, 3, 3, colour)


def paint(rows: Sequence[Sequence[Segment]], columns: int, theme: TerminalTheme) -> Image.Image:
    """The screen ``rows`` as an image."""
    painter = Painter(columns, len(rows), theme)
    for y, segments in enumerate(rows):
        painter.row(y, segments)
    return painter.image
