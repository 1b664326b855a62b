from dataclasses import replace

import pytest

from perftui.analysis.timeline.track import PHASES, STEPS, THREAD, TimelineTrack, TrackIndex
from perftui_tui.look.rows import plain as text_of
from perftui_tui.screens.timeline.navigation import Viewport
from perftui_tui.screens.timeline.track_cells import (
    Glyphs,
    KindsOfTrace,
    merged,
    style_of,
    track_cells,
)

MS = 1_000_000


@pytest.fixture
def steps(make_trace):
    """Four steps without a break, the last one shorter."""
    return make_trace(
        *((f"step {9 + at}", 0, at * 10 * MS, 10 * MS) for at in range(3)),
        ("step 12", 0, 30 * MS, 5 * MS),
    )


def track_of(trace, kind):
    rows = (trace.track == 0).nonzero()[0].astype("int32")
    return TimelineTrack(kind, kind, 0, 0, TrackIndex(rows, trace.start[rows], trace.ends_of(rows)))


def drawn(trace, kind, columns, glyphs):
    view = Viewport.whole(0, int(trace.end.max()))
    cells = track_cells(trace, KindsOfTrace(trace), track_of(trace, kind), view, columns, glyphs)
    return text_of(merged(cells))


@pytest.mark.parametrize(
    ("room", "words"),
    [(20, "step 10 10.0 ms"), (15, "step 10 10.0 ms"), (14, "10 10.0 ms"), (9, "10"), (2, "10"),
     (1, "")],
)  # fmt: skip
def test_a_step_never_shows_a_cut_number(steps, room, words):
    event_style = style_of(track_of(steps, STEPS), steps, KindsOfTrace(steps), None)
    assert event_style.label(1, room) == words


def test_steps_are_told_apart_while_each_has_two_columns(steps):
    assert drawn(steps, STEPS, 56, Glyphs()) == (
        "▏step 9 10.0 ms█▏step 10 10.0 ms▏step 11 10.0 ms▏12█████"
    )
    assert drawn(steps, STEPS, 14, Glyphs()) == "▏9██▏10█▏11█▏█"
    assert drawn(steps, STEPS, 7, Glyphs()) == "███████"
    assert drawn(steps, STEPS, 14, Glyphs(ascii_only=True)) == "[9OO[10O[11O[O"


@pytest.fixture
def phases(make_trace):
    return make_trace(
        ("input_wait", 0, 0, 10 * MS),
        ("forward", 0, 10 * MS, 20 * MS),
        ("backward", 0, 35 * MS, 5 * MS),
    )


def test_phases_are_called_as_everywhere(phases):
    assert drawn(phases, PHASES, 40, Glyphs()) == "▏wait█████▏forward████████████     ▏bwd█"
    assert drawn(phases, PHASES, 8, Glyphs(ascii_only=True)) == "DDFFFF B"
    agent = replace(phases, names=tuple(f"perftui::{name}" for name in phases.names))
    assert drawn(agent, PHASES, 40, Glyphs()) == drawn(phases, PHASES, 40, Glyphs())


def test_letters_do_not_run_into_words(phases):
    expected = "[wait DDDD[forward FFFFFFFFFFF     [bwd "
    for glyphs in (Glyphs(colours=False), Glyphs(ascii_only=True)):
        assert drawn(phases, PHASES, 40, glyphs) == expected


def test_without_colours_letters_tell_phases_apart(phases):
    assert drawn(phases, PHASES, 8, Glyphs(colours=False)) == "DDFFFF B"
    assert drawn(phases, THREAD, 8, Glyphs(colours=False)) == "██████ █"
