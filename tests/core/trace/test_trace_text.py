from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace.text import printable


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("aten::mm", "aten::mm"),
        ("red \x1b[31m", "red \\x1b[31m"),
        ("a\tb\nc", "a\\x09b\\x0ac"),
        ("\x9b2J", "\\x9b2J"),
        ("abc\u202edef", "abc\\u202edef"),
        ("abc\u061cdef", "abc\\u061cdef"),
        ("\ud800", "\\ud800"),
        ("Größe 批 🙂", "Größe 批 🙂"),
    ],
)
def test_control_characters_are_spelled_out(text: str, expected: str) -> None:
    assert printable(text) == expected


@given(st.text(st.characters()))
def test_nothing_is_left_that_a_terminal_acts_on(text: str) -> None:
    shown = printable(text)
    shown.encode("utf-8")
    assert not any(unicodedata.category(character) in {"Cc", "Cs"} for character in shown)
