"""Rows of a comparison: what they are parts of, and memory and machine on both sides."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.analysis.model import TraceAnalysis
from perftui.experiments.comparison import Comparison, compare, split
from perftui.facts.fact import Facts
from perftui.report.comparison import as_object, text
from tests.core.diagnosis.runs import make_run, step_table, telemetry_table
from tests.described import described
from tests.traces.builder import TraceBuilder, ms, us

Work = list[tuple[int, int, int]]
"""Of each step operators by number, with us of their own and us of a kernel on a stream of its
own."""

WORKED = st.lists(
    st.tuples(st.integers(0, 4), st.integers(1, 50), st.integers(1, 300)), min_size=1, max_size=6
)
WORK = st.lists(WORKED, min_size=2, max_size=4)


def training(steps: list[Work], shapes: str = "") -> TraceAnalysis:
    """Steps of 20 ms."""
    story = TraceBuilder()
    for work in steps:
        begin = story.now
        story.step()
        for number, own, lasting in work:
            dims: dict[str, Any] = {"Input Dims": [[number, 8]]} if shapes else {}
            story.op(f"aten::op{'' if shapes else number}", **dims).pause(us(own))
            story.launch(f"kernel{number}", us(lasting), stream=number).close()
        story.at(begin + ms(20)).end()
    return story.analysis()


def compared(before: TraceAnalysis, after: TraceAnalysis) -> Comparison:
    return compare(Facts(None, before), Facts(None, after))


@settings(max_examples=15)
@given(WORK, WORK, st.integers(0, 5))
def test_listed_rows_others_and_what_was_counted_twice_are_the_whole(before, after, most) -> None:
    found = compared(training(before), training(after))
    for rows, whole, of in (
        (found.operators, found.operators_whole, "cpu_ns"),
        (found.kernels, found.kernels_whole, "gpu_ns"),
    ):
        listed, others = split(rows, most)
        shown = [*listed, *([others] if others else [])]
        if whole is None:
            assert shown == []
            continue
        for side in ("before", "after"):
            parts = sum(getattr(getattr(one, side), of) for one in shown)
            twice = getattr(whole, f"twice_{side}_ns")
            assert parts - twice == getattr(whole, f"{side}_ns")
            assert twice >= 0
        twice = whole.twice_after_ns - whole.twice_before_ns
        assert sum(getattr(one, of) for one in shown) - twice == whole.after_ns - whole.before_ns


@settings(max_examples=10)
@given(WORKED)
def test_the_whole_is_what_the_devices_and_the_threads_were_busy(work) -> None:
    found = compared(training([work] * 3), training([work] * 3))
    assert found.operators_whole is not None
    assert found.kernels_whole is not None
    # Each launch takes 5 us of its operator.
    assert found.operators_whole.before_ns == sum(us(own + 5) for _, own, _ in work)
    whole = found.kernels_whole
    assert whole.before_ns + whole.twice_before_ns == sum(us(lasting) for *_, lasting in work)
    assert whole.before_ns >= max(us(lasting) for *_, lasting in work)


def test_operators_are_rows_by_shape_where_both_have_recorded_them() -> None:
    before = [[(1, 10, 100), (2, 10, 100)]] * 3
    after = [[(1, 10, 100), (3, 30, 100)]] * 3
    found = compared(training(before, "shapes"), training(after, "shapes"))
    assert found.operators_by == "name and shapes"
    calls = {one.name: (one.before.calls, one.after.calls) for one in found.operators}
    assert calls == {
        "aten::op  [1,8]": (1, 1),
        "aten::op  [2,8]": (1, 0),
        "aten::op  [3,8]": (0, 1),
    }
    assert "Operators of a step by name and shapes, self CPU time" in text(found)

    mixed = compared(training(before, "shapes"), training(after))
    assert mixed.operators_by == "name"
    said = "operators are compared by name: only the first side has recorded shapes"
    assert mixed.table_notes == (said,)
    assert said in as_object(mixed)["notes"]


def test_all_rows_are_within_80_columns_and_end_with_the_whole() -> None:
    many = [[(number, 10, 100) for number in range(14)]] * 3
    shown = text(compared(training(many), training([[(0, 10, 100)]] * 3))).splitlines()
    at = shown.index("Kernels and copies of a step, most changed first")
    assert max(map(len, shown[at:])) <= 80
    table = [re.split(r"  +", line.strip()) for line in shown[at + 1 : at + 15]]
    assert table[1] == ["kernel1", "1, only before", "100 µs", "-", "-100 µs"]
    assert table[11][:3] == ["4 others", "4 -> 1", "400 µs"]
    assert table[12][0] == "ran at the same time"
    assert table[13][0] == "GPU busy"


def test_memory_loader_and_machine_stand_side_by_side() -> None:
    def run(peak: int, rss: float, busy: float) -> Facts:
        steps = step_table(
            100, {"forward": 10}, allocated=peak, reserved=2 * peak, peak_allocated=peak
        )
        use = telemetry_table(**{"processes.rss": rss, "gpu0.utilization": busy})
        return Facts(make_run(steps=steps, telemetry=use))

    found = compare(run(2 << 30, 1 << 30, 50.0), run(3 << 30, 1 << 30, 75.0))
    figures = {one.name: (one.unit, one.before, one.after) for one in found.figures}
    assert figures["peak allocated"] == ("B", 2 << 30, 3 << 30)
    assert figures["peak reserved"] == ("B", 4 << 30, 6 << 30)
    assert figures["peak host RSS"] == ("B", 1 << 30, 1 << 30)
    assert figures["GPU busy"] == ("share", 0.5, 0.75)
    lines = [re.split(r"  +", line.strip()) for line in text(found).splitlines()]
    assert ["peak allocated", "2.0 GiB", "3.0 GiB", "+1.0 GiB"] in lines
    assert ["GPU busy", "50 %", "75 %", "+25.0 points"] in lines


def test_what_only_one_side_knows_is_unknown_of_the_other_and_no_zero() -> None:
    use = telemetry_table(**{"processes.rss": 1 << 30})
    found = compare(Facts(make_run(count=100)), Facts(make_run(count=100, telemetry=use)))
    [one] = [one for one in found.figures if one.name == "peak host RSS"]
    assert (one.before, one.after) == (None, 1 << 30)
    plain = described("compare", as_object(found))
    assert [one["before"] for one in plain["figures"] if one["name"] == "peak host RSS"] == [None]
    assert re.search(r"peak host RSS +- +1.0 GiB$", text(found), re.MULTILINE)


@pytest.mark.parametrize("most", [0, 1, 2, 3])
def test_others_are_the_rest(most: int) -> None:
    found = compared(training([[(1, 9, 90), (2, 9, 90)]] * 3), training([[(3, 9, 90)]] * 3))
    listed, others = split(found.kernels, most)
    assert (len(listed), others.name if others else None) == (
        most,
        [*(f"{rest} others" for rest in (3, 2)), "1 other", None][most],
    )
