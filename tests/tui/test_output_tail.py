"""The tail of the script's output, cut into lines."""

from itertools import pairwise
from pathlib import Path

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyte import modes

from perftui_tui.reading.output import LONGEST_LINE, READ_LIMIT, LineBuffer, OutputTail


def test_what_is_appended_is_read_once(tmp_path: Path) -> None:
    tail = OutputTail(tmp_path / "output.log")
    assert tail.poll() is False
    assert tail.view().lines == ()
    log = tmp_path / "output.log"
    log.write_bytes(b"one\n")
    tail = OutputTail(log)
    assert tail.poll()
    before = tail.view()
    with log.open("ab") as file:
        file.write(b"two\r\nthr")
    assert tail.poll()
    assert before.lines == ("one",)
    assert tail.view().lines == ("one", "two", "thr")
    assert not tail.poll()


def test_a_character_cut_in_two_is_whole_again(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    data = "█ 50%\n".encode()
    tail = OutputTail(log)
    for cut in range(len(data)):
        log.write_bytes(data[: cut + 1])
        tail.poll()
    assert tail.view().lines == ("█ 50%",)


def test_lines_kept_are_bounded_and_counted(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"".join(b"line %d\n" % n for n in range(1000)))
    tail = OutputTail(log, lines_kept=100)
    tail.poll()
    view = tail.view()
    assert view.lines[-1] == "line 999"
    assert view.dropped + len(view.lines) == 1000
    assert len(view.lines) < 200


def test_a_long_file_is_entered_near_its_end(tmp_path: Path) -> None:
    log = tmp_path / "output.log"
    log.write_bytes(b"x" * READ_LIMIT + b"\nlast\n")
    tail = OutputTail(log)
    tail.poll()
    assert tail.view().skipped_bytes == 6
    assert tail.view().lines[-1] == "last"


WIDTH, ROWS = 300, 12

texts = st.text(st.sampled_from("abc 0█"), min_size=1, max_size=9)
controls = st.sampled_from(["\n", "\r\n", "\r", "\b", "\t"])
sequences = st.one_of(
    st.tuples(st.sampled_from("ABCDG"), st.sampled_from(["", "1", "2", "5", "40"])),
    st.tuples(st.just("K"), st.sampled_from(["", "0", "1", "2"])),
).map(lambda pair: f"\x1b[{pair[1]}{pair[0]}")
dropped = st.sampled_from(["\x1b[31m", "\x1b[0m", "\x1b[?25l", "\x1b]0;title\x07", "\x1b(B"])
streams = st.lists(st.one_of(texts, controls, sequences, dropped), max_size=60).map("".join)


def by_pyte(stream: str) -> list[str]:
    """Every line that pyte has or had on its screen, without blank ones at the end."""
    screen = pyte.HistoryScreen(WIDTH, ROWS, history=10_000)
    screen.set_mode(modes.LNM)
    pyte.Stream(screen).feed(stream)
    gone = ["".join(line[x].data for x in range(WIDTH)) for line in screen.history.top]
    return without_blank_end([line.rstrip() for line in (*gone, *screen.display)])


def by_buffer(chunks: list[str]) -> list[str]:
    buffer = LineBuffer(ROWS)
    finished = [line for chunk in chunks for line in buffer.feed(chunk)]
    return without_blank_end([*finished, *buffer.lines])


def without_blank_end(lines: list[str]) -> list[str]:
    while lines and not lines[-1]:
        lines = lines[:-1]
    return lines


@pytest.mark.slow
@settings(max_examples=300, deadline=None)
@given(streams)
def test_agrees_with_a_terminal(stream: str) -> None:
    assert by_buffer([stream]) == by_pyte(stream)


@settings(max_examples=200, deadline=None)
@given(streams, st.lists(st.integers(0, 200), max_size=6))
def test_cuts_between_chunks_change_nothing(stream: str, cuts: list[int]) -> None:
    edges = [0, *sorted(min(cut, len(stream)) for cut in cuts), len(stream)]
    chunks = [stream[a:b] for a, b in pairwise(edges)]
    assert by_buffer(chunks) == by_buffer([stream])


def test_newlines_finish_lines_above_the_screen() -> None:
    buffer = LineBuffer(rows=3)
    assert buffer.feed("one\ntwo\nthree\nfour\n") == ["one", "two"]
    assert buffer.lines == ("three", "four", "")
    # Progress bars move in their lines.
    buffer = LineBuffer()
    for done in range(101):
        buffer.feed(f"\r{done:3}%|{'█' * (done // 10):<10}| {done}/100")
    assert buffer.lines == ("100%|██████████| 100/100",)
    buffer = LineBuffer()
    buffer.feed("epoch 1\n")
    for done in range(3):
        buffer.feed(f"\router {done}\n\rinner {done}\x1b[A")
    assert buffer.lines == ("epoch 1", "outer 2", "inner 2")


@pytest.mark.parametrize(
    "evil", ["\x1b]52;c;cGFzc3dk\x07", "\x1bPpayload\x1b\\", "\x1b[2J\x1b[H", "\x07", "\x1bc"]
)
def test_other_sequences_leave_nothing_behind(evil: str) -> None:
    buffer = LineBuffer()
    buffer.feed(f"safe{evil} text")
    assert buffer.lines == ("safe text",)


def test_output_without_newlines_and_endless_sequences_are_bounded() -> None:
    buffer = LineBuffer()
    for _ in range(100):
        buffer.feed("x" * 1000)
    assert len(buffer.lines[0]) == LONGEST_LINE
    buffer = LineBuffer()
    buffer.feed("\x1b]0;" + "y" * 100_000)
    buffer.feed("\nafter")
    assert buffer.lines[-1] == "after"
