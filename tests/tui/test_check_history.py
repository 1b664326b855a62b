"""`perftui check --against history`, and what `perftui runs` says of the same runs."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from perftui_tui.cli import main
from tests.described import described
from tests.tui.test_check import Capture, checked, place, record, rows

__all__ = ["place"]

HISTORY = ("--against", "history", "--fail-on", "none")


def series(place: Path, *waits: int, **newest: object) -> list[Path]:
    """A run an hour with that data loader wait in ms, of 310 ms in all with 118; the newest differs
    in more."""
    last = len(waits) - 1
    return [
        record(
            place,
            f"20231114-{number:02}0000-train",
            hours=number,
            wait_ms=wait,
            git_commit=f"{'ab'[number > 5]}" * 40,
            git_dirty=False,
            **(newest if number == last else {}),
        )
        for number, wait in enumerate(waits)
    ]


def test_a_run_that_is_slower_than_all_before_fails(place: Path, capsys: Capture) -> None:
    runs = series(place, 118, 120, 117, 119, 118, 118, 165, 160)
    code, printed = checked(capsys, runs[-1], *HISTORY)
    assert code == 1
    assert rows(printed)["step time"] == (
        "usual 310 ms -> 352 ms, 14 % slower",
        "at most 5.0 % slower",
        "FAILED",
    )
    assert printed.splitlines()[-5:] == [
        "step time: 14 % slower than 6 earlier runs, which differ by up to 6.0 %; slower since "
        f"{runs[6].name}",
        "against 7 earlier runs of this command",
        f"slower since {runs[6].name}, after {runs[5].name}",
        "  source: commit aaaaaaaaaa -> bbbbbbbbbb",
        "FAILED: 1 of 1 check",
    ]


def test_the_same_is_in_json_junit_and_annotations(place: Path, capsys: Capture) -> None:
    runs = series(place, 118, 120, 117, 119, 118, 118, 165, 160)
    _, printed = checked(capsys, runs[-1], *HISTORY, "--json", "--junit", "out.xml")
    found = described("check", printed)
    history = found["history"]
    assert (history["slower_since"], history["last_before"]) == (runs[6].name, runs[5].name)
    assert [one["run"] for one in history["runs"]] == [run.name for run in runs[:-1]]
    assert (history["place"], history["noise"]) == ("slower", pytest.approx(0.06))
    assert found["ratio"] == pytest.approx(310 / 352, abs=0.01)
    [difference] = found["differences"]
    assert (difference["what"], difference["effect"]) == ("commit", "source")
    [[case]] = ElementTree.parse("out.xml").getroot()  # noqa: S314 - written just now
    assert f"slower since {runs[6].name}" in (case[0].text or "")
    _, printed = checked(capsys, runs[-1], *HISTORY, "--github")
    assert printed.splitlines()[-1].startswith("::error title=perftui%3A step time::14 %25 slower")


def test_within_the_noise_of_earlier_runs_it_passes(place: Path, capsys: Capture) -> None:
    runs = series(place, 118, 120, 117, 119, 118, 125)
    code, printed = checked(capsys, runs[-1], *HISTORY)
    assert (code, rows(printed)["step time"][2]) == (0, "ok")
    assert "slower since" not in printed


def test_too_few_earlier_runs_are_not_certain(place: Path, capsys: Capture) -> None:
    runs = series(place, 118, 120, 117, 119, 200)
    code, printed = checked(capsys, runs[-1], *HISTORY)
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    assert "step time: 4 earlier runs of 5 to compare with" in printed
    assert checked(capsys, runs[-1], *HISTORY, "--inconclusive", "fail")[0] == 1


def test_another_machine_breaks_the_series(place: Path, capsys: Capture) -> None:
    runs = series(place, 118, 120, 117, 119, 118, 118, 200, cpu_name="other")
    for number, run in enumerate(runs[:-1]):
        text = (run / "run.json").read_text()
        name = "one" if number else "other"
        (run / "run.json").write_text(text.replace('"cpu_name": ""', f'"cpu_name": "{name}"'))
    code, printed = checked(capsys, runs[-1], *HISTORY)
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    assert "step time: 1 earlier run of 5 to compare with" in printed
    left_out = "  left out: 5 runs, CPU one -> other: the step is that of another machine"
    assert left_out in printed.splitlines()


def test_a_new_finding_is_one_that_the_last_good_run_lacks(place: Path, capsys: Capture) -> None:
    runs = series(place, 0, 0, 0, 0, 0, 0, 160, 160)
    code, printed = checked(capsys, runs[-1], "--against", "history")
    assert code == 1
    assert "(not in the baseline)" in printed
    assert printed.splitlines()[-1] == "FAILED: 2 of 2 checks"


def test_the_list_of_runs_marks_the_slower_ones(place: Path, capsys: Capture) -> None:
    runs = series(place, 118, 120, 117, 119, 118, 165, 118, 170)
    record(place, "20231114-080000-train", hours=8, wait_ms=0, command=("python", "other.py"))
    record(place, "20231114-090000-train", hours=9, steps=0)
    capsys.readouterr()
    assert main(["runs"]) == 0
    lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
    slower = {name: line for name, line in lines.items() if "slower than before" in line}
    assert list(slower) == [runs[7].name, runs[5].name]
    assert slower[runs[7].name].endswith("  362 ms  train.py  17 % slower than before")
    assert lines["20231114-080000-train"].endswith("  192 ms  other.py")
    assert lines["20231114-090000-train"].split()[-1] == "train.py"


def test_a_trace_has_no_history(place: Path, capsys: Capture) -> None:
    from tests.tui.traces import write_trace

    assert main(["check", str(write_trace(place)), "--against", "history"]) == 2
    assert "--against history needs a run" in capsys.readouterr().err
