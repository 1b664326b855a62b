"""The figures of two runs as rows: what is judged, and what is too small to be."""

from pathlib import Path

from perftui.experiments.comparison import compare
from perftui.experiments.journal import Proof
from perftui.experiments.verdict import Outcome
from perftui.facts.fact import Facts
from perftui.run.reader import RunReader
from perftui_tui.look.format import format_ns, milliseconds, per_second
from perftui_tui.look.rows import plain
from perftui_tui.panes.experiments import earlier_rows
from perftui_tui.screens.compare.figures import Line, _line, comparison
from tests.tui.recorded import MS, write_run


def test_what_pairs_of_runs_came_to_counts_for_more(tmp_path: Path) -> None:
    runs = [Facts(RunReader(write_run(tmp_path / name)).poll()) for name in ("one", "other")]
    said = "2.00x faster (1.90 to 2.10)"
    proof = Proof("loader-workers", "num_workers 0 -> 4", Outcome.FASTER, said, (), 1, 2.0)
    lines = [plain(line).rstrip() for line in comparison(compare(*runs), 80, proof)]
    assert lines[:3] == [
        "num_workers 0 -> 4: 2.00x faster (1.90 to 2.10) by pairs of runs",
        "These two runs alone say:",
        " NO CLEAR DIFFERENCE",
    ]
    assert plain(comparison(compare(*runs), 80)[0]).rstrip() == " NO CLEAR DIFFERENCE"


def drawn(line: Line) -> str:
    return plain(_line(line, 100, judges=True))


def test_a_part_too_small_to_matter_shows_its_change_and_no_bar() -> None:
    text = drawn(Line("loader start", 30_000, 700_000, format_ns, matters=False))
    assert text.split() == ["loader", "start", "30.0", "µs", "700", "µs", "+670", "µs"]


def test_a_part_that_matters_is_judged_with_a_bar() -> None:
    text = drawn(Line("data loader wait", 100 * MS, 50 * MS, format_ns))
    assert "-50 %" in text
    assert "better" in text
    assert "█" in text


def test_many_times_more_is_said_in_its_own_unit() -> None:
    text = drawn(Line("loader start", MS, 24 * MS, format_ns))
    assert "%" not in text
    assert "+23.0 ms" in text
    assert "worse" in text


def test_no_change_at_all_is_left_blank() -> None:
    assert drawn(Line("other", MS, MS, format_ns, matters=False)).endswith("1.00 ms         ")


def test_quick_steps_have_no_exponent() -> None:
    text = drawn(Line("steps/s", 999.4, 1234.0, per_second, lower_is_better=False))
    assert text.split()[1:3] == ["999", "1,234"]


def test_a_short_part_is_not_said_to_take_no_time() -> None:
    assert [milliseconds(ns) for ns in (0, 4_999, 5_000, 30_000)] == [
        "0.00",
        "<0.01",
        "0.01",
        "0.03",
    ]


def test_what_cannot_be_concluded_is_not_called_better() -> None:
    text = plain(_line(Line("data loader wait", 100 * MS, 2 * MS, format_ns), 100, judges=False))
    assert text.endswith("-98 %")


def test_earlier_trials_are_a_row_each_below_the_newest() -> None:
    proofs = {
        name: Proof(name, name.upper(), Outcome.FASTER, f"{at}.00x faster", (), at * 60 * 10**9)
        for at, name in enumerate(("first", "second", "third"), 2)
    }
    rows = [plain(line) for line in earlier_rows(proofs, 80)]
    assert [line[18:] for line in rows[1:]] == ["SECOND   3.00x faster", "FIRST   2.00x faster"]
    assert rows[0] == "Earlier trials of this run"
    assert earlier_rows({"third": proofs["third"]}, 80) == []
