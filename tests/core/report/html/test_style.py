"""The style sheet: text can be read on every colour, light and dark."""

from __future__ import annotations

import re

import pytest

from perftui.analysis.model import GapCause
from perftui.report.html.page import style_sheet
from perftui.report.html.style import hue
from perftui.run.columns import PHASES

LEGIBLE = 4.5
"""Contrast that WCAG asks for of text."""

PLAIN = ("ink", "dim", "bad", "warn", "good", "note")


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb`` or ``#rgb``, as WCAG defines it."""
    digits = colour.removeprefix("#")
    digits = digits if len(digits) == 6 else "".join(2 * one for one in digits)
    shares = [int(digits[at : at + 2], 16) / 255 for at in (0, 2, 4)]
    red, green, blue = (
        one / 12.92 if one <= 0.04045 else ((one + 0.055) / 1.055) ** 2.4 for one in shares
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(first: str, second: str) -> float:
    low, high = sorted((luminance(first), luminance(second)))
    return (high + 0.05) / (low + 0.05)


def variables(dark: bool) -> dict[str, str]:
    light_block, dark_block = re.findall(r":root\{([^}]*)\}", style_sheet())
    return dict(re.findall(r"--([a-z]+):(#[0-9a-f]+);", dark_block if dark else light_block))


@pytest.mark.parametrize("dark", [False, True])
def test_text_is_legible_on_every_colour(dark: bool) -> None:
    known = variables(dark)
    for name in PLAIN:
        assert contrast(known[name], known["paper"]) >= LEGIBLE, name
        assert contrast(known[name], known["card"]) >= LEGIBLE, name
    for name in ("added", "removed"):
        assert contrast(known["ink"], known[name]) >= LEGIBLE, name
    hues = set(re.findall(r"\.c-([a-z]+)\{", style_sheet()))
    assert len(hues) > 8
    for name in (*hues, "bad", "warn", "good", "note"):
        assert contrast(known["on"], known[name]) >= LEGIBLE, name


def test_each_part_of_a_step_has_a_colour_of_its_own() -> None:
    assert len({hue(phase) for phase in PHASES}) == len(PHASES)
    causes = [one.value for one in GapCause if one is not GapCause.INITIALISATION]
    assert len({hue(cause) for cause in causes}) >= len(causes) - 1


def test_the_sheet_names_no_file() -> None:
    assert "url(" not in style_sheet()
    assert "@import" not in style_sheet()
