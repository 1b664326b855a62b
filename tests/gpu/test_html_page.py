"""The HTML page of a run on a GPU holds what its text holds."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from perftui.report.text import render as text_of
from tests.core.report.html.pages import cells, of, section
from tests.gpu.recorded import Recorded

RUNS = ("item", "starved", "language")
Unpack = Callable[[str], Recorded]


def block(text: str, title: str) -> list[str]:
    """The lines of the block that begins so, without the title."""
    (found,) = (one for one in text.split("\n\n") if one.startswith(title))
    return found.rstrip().splitlines()[1:]


@pytest.mark.slow
@pytest.mark.parametrize("name", RUNS)
def test_phases_and_memory_of_the_gpu_and_the_recording_are_those_of_the_text(
    name: str, recorded: Unpack
) -> None:
    report, page = of(recorded(name).root)
    text = text_of(report)
    phases = cells(section(page, "Phases on the GPU").only("table"))
    written = [line.split() for line in block(text, "Phases on the GPU")]
    assert [name for name, _ in phases] == [words[0] for words in written]
    memory = cells(section(page, "GPU memory, by torch").only("table"))
    assert [f"  {name:<30} {value:>12}" for name, value in memory] == block(text, "GPU memory, by")
    items = [item.text for item in section(page, "Recording").every("li")]
    assert items == [line.strip() for line in block(text, "Recording")]


def test_calls_that_wait_stand_with_their_lines(recorded: Unpack) -> None:
    report, page = of(recorded("item").root)
    rows = cells(section(page, "Calls that wait for the GPU").only("table"))
    written = [line.split() for line in block(text_of(report), "Calls that wait for the GPU")[1:]]
    assert len(rows) == len(written) > 0
    for (call, each, time, longest), words in zip(rows, written, strict=True):
        assert [each, *time.split(), *longest.split()] == words[:5]
        assert call.split(" at ")[0] == words[5]
