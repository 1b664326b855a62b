"""Ranges and calls of CUDA by name, on the Ops screen."""

import csv
import io

import pytest

from tests.traces.builder import TraceBuilder, us
from tests.tui.test_ops_view import GEMM, Host, words


def story():
    """Two ranges of a name, one within the other, around a launch; and one more."""
    story = TraceBuilder().range("block", us(100)).at(us(10)).range("block", us(50))
    story.at(us(20)).op("aten::mm", us(30)).at(us(25)).launch(GEMM, us(500), call=us(8))
    story.at(us(200)).range("load", us(30))
    return story.at(us(300)).op("aten::mm", us(30)).at(us(305)).launch(GEMM, us(80), call=us(4))


@pytest.fixture(params=[(80, 24), (120, 40)])
async def host(request):
    app = Host(story().analysis())
    async with app.run_test(size=request.param) as pilot:
        app.pilot = pilot
        await pilot.pause()
        yield app


@pytest.mark.keys("ops.sums")
async def test_n_shows_ranges_then_calls_then_operators(host):
    await host.pilot.press("n")
    await host.reach(lambda: host.lines()[0].startswith("range"))
    assert "[Ranges]" in host.said("#ops-title")
    assert words(host.lines()[1]).startswith("block 2 100 µs 75.0 µs")
    assert words(host.lines()[2]).startswith("load 1 30.0 µs 30.0 µs")
    assert host.figures("share") == {"block": "76.9 %", "load": "23.1 %"}
    await host.pilot.press("n")
    await host.reach(lambda: host.lines()[0].startswith("call "))
    assert "[CUDA calls]" in host.said("#ops-title")
    assert words(host.lines()[1]).startswith("cudaLaunchKernel 2 12.0 µs 6.00 µs")
    assert host.figures("min") == {"cudaLaunchKernel": "4.00 µs"}
    assert host.figures("max") == {"cudaLaunchKernel": "8.00 µs"}
    await host.pilot.press("n")
    assert host.lines()[1].startswith("aten::mm")
    assert host.said("#ops-title").startswith("[Ops]")


async def test_from_them_k_leads_to_kernels_and_g_to_operators(host):
    await host.pilot.press("n", "k")
    assert host.lines()[1].startswith(GEMM)
    await host.pilot.press("n", "g")
    assert host.lines()[1].startswith("aten::mm")
    await host.pilot.press("n", "v")
    await host.reach(lambda: "[tree]" in host.said("#ops-title"))


async def test_a_row_leads_to_the_longest_on_the_timeline(host):
    await host.pilot.press("n")
    await host.reach(lambda: host.lines()[0].startswith("range"))
    await host.pilot.press("enter", "down", "t")
    trace = host.given[0].trace
    assert [trace.name_of(row) for row in host.opened] == ["block", "load"]
    assert trace.duration[host.opened[0]] == us(100)


async def test_they_are_filtered_and_saved_like_any_table(host):
    await host.pilot.press("n")
    await host.reach(lambda: host.lines()[0].startswith("range"))
    await host.pilot.press("slash", *"lo", "enter", "s")
    assert host.names() == ["block", "load"]
    await host.pilot.press("n")
    await host.reach(lambda: "[CUDA calls]" in host.said("#ops-title"))
    ranges = host.saved[0]
    assert ranges.stem == "ranges"
    rows = list(csv.DictReader(io.StringIO(ranges.text)))
    assert rows[0]["total (ns)"] == "100000"


async def test_where_there_are_none_it_says_so():
    app = Host(TraceBuilder().op("aten::mm", us(30)).analysis())
    async with app.run_test(size=(100, 24)) as pilot:
        app.pilot = pilot
        await pilot.press("n")
        await app.reach(lambda: "no ranges in this trace" in " ".join(app.lines()))
        await pilot.press("n")
        await app.reach(lambda: "no calls of the CUDA runtime" in " ".join(app.lines()))
