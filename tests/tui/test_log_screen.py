"""The log and its tail: follow, scroll, search, and never obey what the script prints."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyte import modes

from perftui_tui.reading.output import LONGEST_LINE, READ_LIMIT, LineBuffer, OutputTail
from perftui_tui.widgets.log_view import LogView, highlighted
from tests.tui.driving import opened, press, text_of, until, until_shown
from tests.tui.recorded import ENDED, write_run
from tests.tui.traces import write_trace


@pytest.fixture
def live(tmp_path: Path) -> Path:
    output = b"".join(b"epoch 1 step %d loss 2.41\r\n" % n for n in range(1000))
    return write_run(tmp_path / "runs", output=output + b"\r 50%|#####     |")


@pytest.mark.keys("log.follow", "log.scroll_pages(-1)")
async def test_it_follows_the_newest_line_until_one_scrolls(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "6", until="step 999 ")
        await until_shown(pilot, "following")
        with (live / "output.log").open("ab") as file:
            file.write(b"\r100%|##########|\r\nthe end\r\n")
        await until_shown(pilot, "the end")
        await press(pilot, "pageup", until="paused")
        held = text_of(app).splitlines()[1:20]
        with (live / "output.log").open("ab") as file:
            file.write(b"\r\nmore\r\n")
        await until(pilot, lambda: app.output.lines[-1] == "more", "the output")
        await pilot.pause()
        assert text_of(app).splitlines()[1:20] == held
        await press(pilot, "f", until="more")


@pytest.mark.slow
async def test_an_empty_log_says_why(tmp_path: Path) -> None:
    async with opened(write_trace(tmp_path), replay=True) as (_, pilot):
        await press(pilot, "6", until="a trace has no script output")
    root = write_run(tmp_path / "runs", output=b"")
    async with opened(root) as (app, pilot):
        await press(pilot, "6", until="the script has printed nothing yet")
        await press(pilot, "1", until="the script has printed nothing yet")
        (root / "output.log").write_bytes(b"epoch 1\r\n")
        await until_shown(pilot, "epoch 1")
        assert "printed nothing" not in text_of(app)
    ended = write_run(tmp_path / "ended", output=b"", **ENDED)
    async with opened(ended) as (app, pilot):
        await press(pilot, "6", until="the script has printed nothing ")
        assert "printed nothing yet" not in text_of(app)


@pytest.mark.keys("log.scroll_top")
async def test_the_oldest_line_is_one_key_away_and_a_search_begins_on_screen(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "6", until="following")
        await pilot.press("home")
        await until(pilot, lambda: "step 0 " in text_of(app), "the first line")
        await press(pilot, "f", until="following")
        await pilot.press("slash", *"step", "enter", "home", "n")
        assert app.screen.query_one(LogView).found == 0


@pytest.mark.slow
@pytest.mark.keys("log.search", "log.find(1)", "log.find(-1)", "log.close_search")
async def test_a_search_goes_on_is_closed_and_its_letters_are_no_commands(live: Path) -> None:
    async with opened(live) as (app, pilot):
        await press(pilot, "6", until="following")
        await press(pilot, "slash", *"STEP 50", "enter", until="step 509 ")
        await pilot.press("N")
        await until(pilot, lambda: app.screen.query_one(LogView).scroll_offset.y == 508, "508")
        await pilot.press("n")
        await until(pilot, lambda: app.screen.query_one(LogView).scroll_offset.y == 509, "509")
        await pilot.press("slash", *"q1cT?")
        assert app.current_mode == "log"
        assert app.is_running
        await press(pilot, "enter", until="no line with")
        await pilot.press("slash", *"ab")
        assert app.screen.has_class("-searching")
        await press(pilot, "escape", "1", screen="overview")


@pytest.mark.slow
async def test_the_search_goes_on_through_the_last_screenful_and_round_the_end(
    tmp_path: Path,
) -> None:
    lines = ["error 0", *["fine"] * 200, "error 1", "fine", "error 2", "fine", "fine"]
    output = "\r\n".join(lines).encode()
    async with opened(write_run(tmp_path / "runs", output=output)) as (app, pilot):
        await press(pilot, "6", until="following")
        await press(pilot, "slash", *"error", "enter", until="found in line 204")
        view = app.screen.query_one(LogView)
        found = [view.found]
        for key in "NNNnnnn":
            await pilot.press(key)
            found.append(view.found)
        assert found == [203, 201, 0, 203, 0, 201, 203, 0]


def test_matches_are_marked_in_any_case() -> None:
    assert highlighted("Loss loss", "LOSS") == (("Loss", "match"), (" ", ""), ("loss", "match"))


async def test_markup_and_control_codes_are_only_text(tmp_path: Path) -> None:
    evil = b"[bold red]not bold[/] \x1b]0;owned\x07[link=x]y[/link] \x9b31m \xe2\x80\xaeabc\r\n"
    async with opened(write_run(tmp_path / "runs", output=evil)) as (app, pilot):
        await press(pilot, "6", until="[bold red]not bold[/]")
        text = text_of(app)
        assert "[link=x]y[/link]" in text
        assert not any(ord(c) < 32 or 127 <= ord(c) < 160 for c in text.replace("\n", ""))
        assert "\u202e" not in text


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
