"""Frames stay small: what did not change is not painted, and ASCII terminals get ASCII."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.run.layout import RunLayout
from perftui_tui.commands.table import OPTIONS
from perftui_tui.look.themes import THEMES
from perftui_tui.widgets.row_view import RowView
from tests.tui.driving import opened, press, settled, until
from tests.tui.recorded import ENDED, gpu_window, write_full_machine, write_run
from tests.tui.test_memory_screen import three_lines
from tests.tui.test_ranks_screen import write_ranks


@pytest.mark.slow
async def test_an_equal_picture_paints_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    painted: list[str] = []
    async with opened(write_run(tmp_path)) as (app, pilot):
        await pilot.pause(0.5)
        strip_of = RowView.strip_of

        def count(view: RowView, line: object) -> object:
            painted.append(view.id or type(view).__name__)
            return strip_of(view, line)

        monkeypatch.setattr(RowView, "strip_of", count)
        first = app.snapshot
        await until(pilot, lambda: app.snapshot is not first, "a second picture")
        await pilot.pause(0.5)
    assert painted == []


async def test_a_changed_row_is_painted_alone() -> None:
    from textual.app import App, ComposeResult

    class Rows(App[None]):
        def __init__(self) -> None:
            super().__init__()
            self.register_theme(THEMES[0])
            self.theme = THEMES[0].name

        def compose(self) -> ComposeResult:
            yield RowView()

    async with Rows().run_test() as pilot:
        view = pilot.app.query_one(RowView)
        view.rows = [(("one", ""),), (("two", ""),), (("three", ""),)]
        await pilot.pause()
        regions: list[object] = []
        refresh = view.refresh

        def record(*areas: object, **options: object) -> object:
            regions.extend(areas)
            return refresh(*areas, **options)

        view.refresh = record
        view.rows = [(("one", ""),), (("2", ""),), (("three", ""),)]
        assert [(region.y, region.height) for region in regions] == [(1, 1)]


def test_every_theme_can_be_asked_for_by_its_name() -> None:
    # The command line names them itself: a headless run does not wait for Textual.
    assert [f"perftui-{name}" for name in OPTIONS["theme"].words] == [
        theme.name for theme in THEMES
    ]


SIZE = (200, 50)


def largest_blank(rows: list[str]) -> int:
    """Cells of the largest rectangle of blanks in ``rows`` of one length."""
    largest = 0
    depths = [0] * len(rows[0])
    for line in rows:
        depths = [depth + 1 if cell == " " else 0 for depth, cell in zip(depths, line, strict=True)]
        open_at: list[tuple[int, int]] = []
        for column, depth in enumerate([*depths, 0]):
            begin = column
            while open_at and open_at[-1][1] >= depth:
                begin, height = open_at.pop()
                largest = max(largest, height * (column - begin))
            open_at.append((begin, depth))
    return largest


@given(
    st.integers(1, 6).flatmap(
        lambda n: st.lists(st.text(" x", min_size=n, max_size=n), min_size=1, max_size=6)
    )
)
def test_the_largest_rectangle_is_that_of_a_search_of_all(rows: list[str]) -> None:
    width, height = len(rows[0]), len(rows)
    sizes = [
        (right - left) * (bottom - top)
        for top in range(height)
        for bottom in range(top + 1, height + 1)
        for left in range(width)
        for right in range(left + 1, width + 1)
        if all(not line[left:right].strip() for line in rows[top:bottom])
    ]
    assert largest_blank(rows) == max(sizes, default=0)


def slow_loader(runs: Path) -> Path:
    return write_run(runs, **ENDED)


def before_and_after(runs: Path) -> Path:
    first = write_run(runs)
    changed = {"parent": first.name, "name": "num_workers 0 -> 4", "wait_ms": 3, "workers": 4}
    return write_run(runs, run_id="20231114-231320-train", **changed)


def with_a_snapshot(runs: Path) -> Path:
    root = write_run(runs, gpu=True, workers=2, **ENDED)
    memory = RunLayout(root).rank(0).memory
    memory.mkdir()
    (memory / "peak.pickle").write_bytes(three_lines())
    return root


def full_machine(runs: Path) -> Path:
    return write_full_machine(runs, cards=4, window=gpu_window())


def eight_gpus(runs: Path) -> Path:
    return write_full_machine(runs, cards=8, window=gpu_window())


def with_ranks(count: int) -> Callable[[Path], Path]:
    return lambda runs: write_ranks(runs, *(60 + rank for rank in range(count)))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("write", "key", "screen"),
    [
        (full_machine, "1", "overview"),
        (eight_gpus, "1", "overview"),
        (slow_loader, "1", "overview"),
        (slow_loader, "4", "diagnosis"),
        (before_and_after, "5", "compare"),
        (with_a_snapshot, "7", "memory"),
        (full_machine, "7", "memory"),
        (slow_loader, "7", "memory"),
        *((with_ranks(count), "8", "ranks") for count in (2, 4, 8)),
        (before_and_after, "9", "runs"),
    ],
)
async def test_no_more_than_a_third_is_empty(
    tmp_path: Path, write: Callable[[Path], Path], key: str, screen: str
) -> None:
    async with opened(write(tmp_path), SIZE) as (_, pilot):
        await press(pilot, key, screen=screen)
        shown = (await settled(pilot)).splitlines()
        part = largest_blank([line.ljust(SIZE[0]) for line in shown]) / (SIZE[0] * SIZE[1])
        assert part <= 1 / 3, "\n".join(shown)
