"""Rows of styled text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.cells import cell_len

from perftui.trace.text import printable
from perftui_tui.look.rows import (
    CONTINUED,
    Row,
    crop,
    fit,
    fold,
    plain,
    row,
    safe,
    spread,
    width,
    wrap,
)

spans = st.tuples(st.text(st.sampled_from("ab █日"), max_size=8), st.sampled_from(["", "dim"]))
rows = st.lists(spans, max_size=5).map(tuple)


@given(rows, st.integers(0, 30))
def test_fit_is_exactly_as_wide_as_asked(line: Row, cells: int) -> None:
    assert width(fit(line, cells)) == cells


@given(rows, st.integers(1, 30))
def test_a_cut_is_marked_and_what_fits_is_whole(line: Row, cells: int) -> None:
    cut = crop(line, cells)
    assert width(cut) <= cells
    assert cut == line or plain(cut).endswith("…")


@given(rows, rows, st.integers(0, 40))
def test_spread_fills_the_width_and_keeps_the_right(left: Row, right: Row, cells: int) -> None:
    line = spread(left, right, cells)
    assert width(line) == cells
    assert plain(line).endswith(plain(crop(right, cells)))


@given(st.text(st.sampled_from("abc \t\x1b日"), max_size=60), st.integers(8, 40))
def test_wrapping_loses_nothing_and_fits(text: str, cells: int) -> None:
    wrapped = [plain(line) for line in wrap(text, cells, indent="  ")]
    letters = "".join(printable(word) for word in text.split())
    assert "".join(line[2:].replace(" ", "") for line in wrapped) == letters
    assert all(cell_len(line) <= cells for line in wrapped)


@given(st.lists(st.text("abc", min_size=1, max_size=8)))
def test_wrapping_parts_no_word_that_fits(words: list[str]) -> None:
    wrapped = " ".join(plain(line) for line in wrap(" ".join(words), 8))
    assert wrapped.split() == words


def test_wrapped_rows_are_indented_and_fit() -> None:
    lines = wrap("a sentence of several words", 14, indent="  ")
    assert [plain(line) for line in lines] == ["  a sentence", "  of several", "  words"]
    assert all(cell_len(plain(line)) <= 14 for line in lines)


@pytest.mark.parametrize(
    "figure", ["93 %", "(63 %)", "40.8 ms/step,", "1.5 µs", "12 s.", "3.54 GiB", "8 MB/s", "2 B"]
)
def test_a_figure_is_not_parted_from_its_unit(figure: str) -> None:
    for cells in range(len(figure), 2 * len(figure) + 12):
        wrapped = [plain(line) for line in wrap(f"about {figure} of it", cells)]
        assert any(figure in line for line in wrapped), wrapped


def test_a_word_behind_a_number_is_no_unit() -> None:
    wrapped = [plain(line) for line in wrap("all 2 samples of it", 6)]
    assert wrapped == ["all 2", "sample", "s of", "it"]


def test_folding_counts_the_cells_of_what_is_drawn() -> None:
    folded = fold(row("\x1b" * 5), 10)
    assert [plain(line) for line in folded] == [
        "\\x1b\\x1b\\x",
        f"{CONTINUED}1b\\x1b\\x",
        f"{CONTINUED}1b",
    ]
    assert [safe(line) for line in folded] == folded


def test_control_codes_are_spelled_out() -> None:
    assert plain(safe(row("a\x1b[2Jb\x9b\u202ec"))) == "a\\x1b[2Jb\\x9b\\u202ec"


@given(rows, st.integers(4, 30))
def test_folding_loses_nothing_and_fits(line: Row, cells: int) -> None:
    first, *rest = fold(line, cells)
    assert all(plain(one).startswith(CONTINUED) for one in rest)
    unmarked = [plain(one).removeprefix(CONTINUED) for one in rest]
    assert plain(first) + "".join(unmarked) == plain(line)
    assert all(width(one) <= cells for one in (first, *rest))
