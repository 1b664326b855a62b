"""Two runs in one plot: told apart without colour, over round ticks."""

import pytest
from textual.app import App

from perftui_tui.look.themes import DEFAULT_THEME, THEMES
from perftui_tui.screens.compare.figures import StepHistogram, histogram


class Host(App):
    def compose(self):
        yield StepHistogram()

    def on_mount(self):
        for theme in THEMES:
            self.register_theme(theme)
        self.theme = DEFAULT_THEME


async def plotted(before, after):
    app = Host()
    async with app.run_test(size=(72, 18)) as pilot:
        plot = app.query_one(StepHistogram)
        plot.show(before, after)
        await pilot.pause()
        return str(plot.render())


QUICK, SLOW = [20.0 + at % 5 for at in range(100)], [50.0 + at % 5 for at in range(100)]


async def test_runs_are_told_apart_without_colour():
    text = await plotted(SLOW, QUICK)
    assert "•• before" in text
    assert "•• after" not in text


async def test_ticks_are_round():
    axis = (await plotted(SLOW, QUICK)).splitlines()[-2]
    assert axis.split() == ["0", "10", "20", "30", "40", "50"]


async def test_steps_that_take_no_time_are_drawn_too():
    assert "after" in await plotted([0.0, 0.0], QUICK)
    assert "before" in await plotted([0.0, 0.0], [0.0])


@pytest.mark.parametrize("values", [[1.0], [1.0, 2.0, 300.0]])
def test_shares_sum_to_the_whole(values):
    assert sum(histogram(values, 10.0)[1]) == pytest.approx(100)
