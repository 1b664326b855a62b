"""`perftui check` and `perftui compare`: limits, baselines, earlier runs, repeats, traces."""

import json
import re
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from perftui.run.manifest import Override
from perftui_tui.cli import main
from tests.core.report.test_special_reports import three_lines, write_snapshot
from tests.described import described
from tests.ran import Capture, Patch, ran
from tests.traces.builder import ms
from tests.tui.driving import opened, press, settled, text_of, until_shown
from tests.tui.recorded import ENDED, SECOND, START, write_run, write_script
from tests.tui.traces import even_steps, write_trace

FIRST, NOW = "20231114-221320-train", "20231114-231320-train"
KEY = "input-in-main-thread@train.py:loader"


@pytest.fixture
def place(tmp_path: Path, monkeypatch: Patch) -> Path:
    """A repository with the script that was run."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("GITHUB_WORKSPACE", raising=False)
    (tmp_path / ".git").mkdir()
    write_script(tmp_path)
    return tmp_path


def record(place: Path, run_id: str, *, hours: float = 0, **changes: Any) -> Path:
    given = {
        "script": place / "train.py",
        "loader_line": 4,
        "cwd": str(place),
        "started_ns": START + round(hours * 3600) * SECOND,
        **ENDED,
        **changes,
    }
    return write_run(place / ".perftui" / "runs", run_id=run_id, **given)


def checked(capsys: Capture, *words: str | Path) -> tuple[int, str]:
    capsys.readouterr()
    return main(["check", *map(str, words)]), capsys.readouterr().out


def rows(printed: str) -> dict[str, tuple[str, str, str]]:
    """By check what was found, the limit and the result."""
    lines = [re.split(r"  +", line.strip()) for line in printed.splitlines()]
    return {line[0]: (line[1], line[2], line[3]) for line in lines if len(line) == 4}


def test_a_critical_finding_fails_in_each_form(
    place: Path, capsys: Capture, monkeypatch: Patch
) -> None:
    run = record(place, FIRST)
    code, printed = checked(capsys, run)
    assert code == 1
    assert rows(printed)[KEY] == ("critical, 123 ms of 310 ms (40 %)", "no critical", "FAILED")
    assert printed.splitlines()[-1] == "FAILED: 1 of 1 check"
    assert "waiting for data" in printed
    assert checked(capsys) == (1, printed), "the newest run, where none is named"
    code, _ = checked(capsys, run, "--junit", "results.xml")
    [suite] = ElementTree.parse("results.xml").getroot()  # noqa: S314 - written just now
    [case] = suite
    assert code == 1
    assert case.attrib == {"classname": "perftui", "name": KEY, "file": "train.py", "line": "4"}
    assert "waiting for data" in (case[0].text or "")
    assert (place / "results.xml").stat().st_mode & 0o777 == 0o644
    (place / "below").mkdir()
    monkeypatch.chdir(place / "below")
    _, printed = checked(capsys, run, "--github")
    last = printed.splitlines()[-1]
    head = "::error file=train.py,line=4,title=perftui%3A input-in-main-thread (critical)::"
    assert last.startswith(f"{head}The training spends")
    assert "(40 %25)" in last


def test_a_finding_below_the_level_is_shown_and_passes(place: Path, capsys: Capture) -> None:
    run = record(place, FIRST, wait_ms=40)
    code, printed = checked(capsys, run)
    assert (code, rows(printed)[KEY][2]) == (0, "ok")
    assert printed.splitlines()[-1] == "passed: 1 check"
    code, printed = checked(capsys, run, "--fail-on", "warning")
    assert (code, rows(printed)[KEY][1:]) == (1, ("no warning or worse", "FAILED"))


def test_no_finding_is_a_check_of_its_own(place: Path, capsys: Capture) -> None:
    code, printed = checked(capsys, record(place, FIRST, wait_ms=0, workers=4))
    assert (code, rows(printed)["findings"]) == (0, ("none", "no critical", "ok"))


def test_too_few_steps_pass_nothing(place: Path, capsys: Capture) -> None:
    """A critical finding takes 20 steady steps, so its absence does too."""
    code, printed = checked(capsys, record(place, FIRST, steps=18))
    assert (code, rows(printed)["findings"][2]) == (2, "not judged")
    assert re.search(r"findings: \d+ of 20 steady steps are too few to judge", printed)


def test_a_slower_step_fails_where_that_is_certain(place: Path, capsys: Capture) -> None:
    before, after = record(place, FIRST), record(place, NOW, hours=1, wait_ms=160)
    code, printed = checked(capsys, after, "--against", before)
    assert code == 1
    found = rows(printed)
    assert found["step time"] == (
        "mean 310 ms -> 352 ms, 14 % slower",
        "at most 5.0 % slower",
        "FAILED",
    )
    assert found[KEY][1:] == ("no new critical", "ok")
    assert printed.splitlines()[-1] == "FAILED: 1 of 2 checks"
    assert checked(capsys, after, "--against", before, "--max-regression", "14%")[0] == 0
    assert checked(capsys, before, "--against", after)[0] == 0
    code, printed = checked(capsys, after, "--against", before, "--json")
    as_json = described("check", printed)
    assert (code, as_json["verdict"], as_json["against"]) == (1, "failed", str(before))
    assert [one["state"] for one in as_json["checks"]] == ["ok", "failed"]
    assert as_json["checks"][0]["file"] == "train.py"
    assert as_json["ratio"] == pytest.approx(310 / 352, abs=0.01)
    assert json.loads(printed)["fail_on"] == "critical"


def test_a_difference_within_noise_is_not_certain(place: Path, capsys: Capture) -> None:
    before, after = record(place, FIRST), record(place, NOW, hours=1, wait_ms=132)
    words = (after, "--against", before, "--max-regression", "3")
    code, printed = checked(capsys, *words)
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    assert "two runs of one program differ by up to 6.0 %" in printed
    assert printed.splitlines()[-1] == "passed: 2 checks, 1 not certain (--inconclusive pass)"
    code, printed = checked(capsys, *words, "--inconclusive", "fail")
    last = "FAILED: 1 of 2 checks, 1 not certain (--inconclusive fail)"
    assert (code, printed.splitlines()[-1]) == (1, last)


def test_runs_of_other_work_or_machines_are_not_certain(place: Path, capsys: Capture) -> None:
    before = record(place, FIRST, steps=200)
    after = record(place, NOW, hours=1, steps=200, cpu_name="other", wait_ms=300)
    short = record(place, "20231115-000000-train", hours=2, steps=15, wait_ms=300)
    assert checked(capsys, after, "--against", before)[0] == 1, "one of them is not known"
    code, printed = checked(capsys, short, "--against", before, "--fail-on", "none")
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    named = record(place, "20231115-010000-train", hours=3, cpu_name="one", wait_ms=300)
    code, printed = checked(capsys, named, "--against", after)
    assert (code, rows(printed)["step time"][2]) == (0, "not certain")
    assert "CPU other -> one: the step is that of another machine" in printed


def test_a_finding_that_the_baseline_lacks_fails(place: Path, capsys: Capture) -> None:
    before = record(place, FIRST, wait_ms=0, workers=4)
    after = record(place, NOW, hours=1)
    code, printed = checked(capsys, after, "--against", before, "--max-regression", "900%")
    assert (code, rows(printed)[KEY][1:]) == (1, ("no new critical", "FAILED"))
    assert "(not in the baseline)" in printed
    words = ("--against", before, "--max-regression", "900%", "--fail-on", "none")
    code, printed = checked(capsys, after, *words)
    assert (code, list(rows(printed))) == (0, ["check", "step time"])


def test_the_newest_earlier_run_of_the_command_is_found(place: Path, capsys: Capture) -> None:
    """Not a later one, nor one of another command, of a fix on trial, or that failed."""
    record(place, "20231114-200000-train", hours=-2, wait_ms=1)
    before = record(place, FIRST, git_commit="1" * 40, python_version="3.11.2")
    record(place, "20231114-221500-train", hours=0.1, command=("/usr/bin/python3", "other.py"))
    tried = (Override("DataLoader", {"num_workers": 2}),)
    record(place, "20231114-222000-train", hours=0.2, overrides=tried)
    record(place, "20231114-223000-train", hours=0.3, exit_code=1)
    after = record(
        place,
        NOW,
        hours=1,
        git_commit="2" * 40,
        python_version="3.12.1",
        host="node2",
        command=("/opt/python3", "train.py", "--lr", "0.1"),
    )
    record(place, "20231115-010000-train", hours=3)
    code, printed = checked(capsys, after, "--against", "newest")
    assert code == 0
    assert f"against {before}" in printed.splitlines()
    told = "host node1 -> node2, Python 3.11.2 -> 3.12.1, command /usr/bin/python3 -> /opt/python3"
    assert f"  only partly comparable: {told}" in printed.splitlines()
    assert "  source: commit 1111111111 -> 2222222222" in printed.splitlines()


def test_the_first_run_has_nothing_to_be_held_against(place: Path, capsys: Capture) -> None:
    run = record(place, FIRST)
    code, printed = checked(capsys, run, "--against", "newest")
    found = rows(printed)
    assert (code, found["step time"][2], found[KEY][2]) == (0, "not certain", "not certain")
    assert "no earlier run of this command" in printed
    assert checked(capsys, run, "--against", "newest", "--inconclusive", "fail")[0] == 1


def test_what_cannot_be_judged_is_code_2(place: Path, capsys: Capture) -> None:
    going = {"status": "running", "exit_code": None, "ended_ns": None}
    code, printed = checked(capsys, record(place, FIRST, **going))
    assert (code, printed.splitlines()[-1]) == (2, "not judged: 1 of 1 check")
    assert "the training is still running" in printed
    code, printed = checked(capsys, record(place, NOW, steps=0), "--junit", "out.xml")
    assert code == 2
    [[case]] = ElementTree.parse("out.xml").getroot()  # noqa: S314 - written just now
    assert [child.tag for child in case] == ["error"]


def test_traces_are_checked_too(place: Path, capsys: Capture) -> None:
    trace = write_trace(place)
    (place / "other").mkdir()
    code, printed = checked(capsys, trace, "--against", write_trace(place / "other"))
    assert code == 0
    assert "step time" in rows(printed)
    assert checked(capsys, trace)[0] in (0, 1)


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["RUN", "--max-regression", "5%"], "--max-regression needs a baseline"),
        (["RUN", "--fail-on", "none"], "--fail-on none leaves nothing to check"),
        (["RUN", "--fail-on", "bad"], "--fail-on needs one of critical, warning, info, none"),
        (["RUN", "--inconclusive", "skip"], "--inconclusive needs one of pass, fail, not 'skip'"),
        (["RUN", "--max-regression", "much"], "such as 5%, not 'much'"),
        (["RUN", "--json", "--github"], "--json and --github both print on stdout"),
        (["RUN", "--against", "RUN"], "cannot be checked against itself"),
        (["RUN", "--against", "nothing"], "no such file: nothing"),
        (["rank0.pt.trace.json", "--against", "newest"], "--against newest needs a run"),
        (["rank0.pt.trace.json", "--against", "history"], "--against history needs a run"),
        (["RUN", "--junit", "no/such/out.xml"], "no/such/out.xml cannot be written"),
        (["snapshot.pickle"], "is a memory snapshot"),
        (["RUN", "RUN"], "'; usage: perftui check [RUN or TRACE]"),
        (["nothing.json"], "no such file: nothing.json"),
    ],
)
def test_what_cannot_be_checked_is_said_and_code_2(
    place: Path, capsys: Capture, words: list[str], told: str
) -> None:
    run = record(place, FIRST)
    write_trace(place)
    write_snapshot(place / "snapshot.pickle", three_lines())
    printed = ran(capsys, "check", *(str(run) if word == "RUN" else word for word in words), code=2)
    assert told in printed.err
    assert printed.out == ""


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


def test_a_run_that_is_slower_than_all_before_fails_in_each_form(
    place: Path, capsys: Capture
) -> None:
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
    code, printed = checked(capsys, series(place, 118, 120, 117, 119, 118, 125)[-1], *HISTORY)
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
    lines = {line.split()[0]: line for line in ran(capsys, "runs").out.splitlines()}
    slower = {name: line for name, line in lines.items() if "slower than before" in line}
    assert list(slower) == [runs[7].name, runs[5].name]
    marked = re.search(r"  362 ms +train.py  17 % slower than before$", slower[runs[7].name])
    assert marked is not None
    assert re.search(r"  192 ms +other.py$", lines["20231114-080000-train"])
    assert lines["20231114-090000-train"].split()[-1] == "train.py"


SLOW = (160, 162, 158, 161, 159, 160)
FAST = (118, 117, 119, 118, 120, 118)


def recorded(place: Path, letter: str, waits: tuple[int, ...], **changes: Any) -> list[Path]:
    """Runs of one commit, those of ``a`` and ``b`` in turn."""
    given = {"git_commit": letter * 40, "git_dirty": False, **changes}
    minutes = "ab".index(letter)
    return [
        record(place, f"20231114-{at:02}{minutes}000-train", hours=at, wait_ms=wait, **given)
        for at, wait in enumerate(waits)
    ]


def compared(capsys: Capture, *words: str | Path) -> tuple[int, str]:
    capsys.readouterr()
    return main(["compare", *map(str, words)]), capsys.readouterr().out


def test_six_runs_each_have_the_interval_of_a_trial_and_are_found(
    place: Path, capsys: Capture
) -> None:
    before, after = recorded(place, "a", SLOW), recorded(place, "b", FAST)
    code, printed = compared(capsys, *before, "--", *after, "--json")
    found = described("compare", printed)
    assert code == 0
    assert found["outcome"] == "faster"
    assert found["low"] <= found["ratio"] <= found["high"]
    assert found["ratio"] == pytest.approx(352 / 310, abs=0.01)
    assert found["repeats"]["before"] == [run.name for run in before]
    assert len(found["repeats"]["pairs"]) == 6
    _, printed = compared(capsys, *before, "--", *after)
    first = printed.splitlines()[0]
    assert first.startswith("1.14x faster (1.1")
    assert first.endswith("): by 6 pairs of runs")
    assert "  before: 6 runs, usual step 350 ms to 354 ms" in printed.splitlines()
    assert "no confidence interval" not in printed
    record(place, "20231114-230000-train", hours=23, git_commit="a" * 40, git_dirty=True)
    found = described("compare", compared(capsys, before[2], after[0], "--json")[1])
    assert found["repeats"]["before"] == [run.name for run in before]
    assert found["repeats"]["after"] == [run.name for run in after]
    code, printed = compared(capsys, before[2], after[0], "--no-repeats")
    assert code == 0
    assert "  one run each: no confidence interval" in printed.splitlines()


def test_few_pairs_say_how_many_are_needed(place: Path, capsys: Capture) -> None:
    before, after = recorded(place, "a", SLOW[:3]), recorded(place, "b", FAST[:3])
    code, printed = compared(capsys, before[0], after[0])
    assert code == 0
    assert "  3 pairs of runs: a confidence interval takes 6" in printed.splitlines()
    assert printed.startswith("1.14x faster: beyond noise: ")


def test_runs_of_one_source_are_no_repeats_and_runs_of_one_side_in_turn_are_named(
    place: Path, capsys: Capture
) -> None:
    before = recorded(place, "a", SLOW)
    _, printed = compared(capsys, *before[:2])
    assert "  one run each: no confidence interval" in printed.splitlines()
    after = [
        record(place, f"20231115-{at:02}0000-train", hours=24 + at, wait_ms=wait)
        for at, wait in enumerate(FAST)
    ]
    _, printed = compared(capsys, *before, "--", *after)
    assert "all runs before were made before all runs after" in printed


def test_a_run_that_cannot_be_used_is_left_out_and_said(place: Path, capsys: Capture) -> None:
    before, after = recorded(place, "a", SLOW[:2]), recorded(place, "b", FAST[:2])
    short = record(place, "20231115-000000-train", hours=24, steps=15)
    _, printed = compared(capsys, *before, short, "--", *after)
    left_out = f"  {short.name} was left out: fewer than 20 steady steps"
    assert left_out in printed.splitlines()


@pytest.mark.parametrize("words", ["A", "A --", "-- A", "A B C", "A -- B -- C"])
def test_sides_that_are_missing_are_a_mistake(capsys: Capture, words: str) -> None:
    assert "compare takes two runs or traces" in ran(capsys, "compare", *words.split(), code=2).err


async def test_a_trace_is_compared_with_one_beside_it(tmp_path: Path) -> None:
    even_steps(24, compute=ms(8)).write(tmp_path / "slow.pt.trace.json")
    async with opened(write_trace(tmp_path, 24), (120, 66), replay=True) as (app, pilot):
        await press(pilot, "5", until="press b to choose another trace")
        await press(pilot, "b", until="slow.pt.trace.json  trace")
        await press(pilot, "1", until="BEFORE  slow.pt.trace.json")
        await until_shown(pilot, "kernels of a step")
        shown = text_of(app)
        assert "AFTER   rank0.pt.trace.json" in shown
        assert "no clear difference (" in shown
        gemm = next(line for line in shown.splitlines() if "gemm" in line)
        assert gemm.split("│")[1].split() == [
            *("gemm", "1", "8.00", "ms", "4.00", "ms", "-4.00", "ms", "-50.0", "%")
        ]
        assert "a trace has no telemetry, losses" in " ".join(shown.split())
        # A narrow one keeps the title of the table whole.
        await pilot.resize_terminal(80, 24)
        await press(pilot, "end", until="operators of a step, own CPU")
        # A large screen shows what changed beside the figures.
        await pilot.resize_terminal(200, 50)
        await until_shown(pilot, "What changed most")
        shown = await settled(pilot)
        kernels = next(line for line in shown.splitlines() if "kernels of a step" in line)
        operators = next(line for line in shown.splitlines() if "operators of a step" in line)
        assert kernels.split("│")[-2].split()[-5:] == ["before", "after", "change", "of", "all"]
        assert operators.split("│")[1].split()[-5:] == ["before", "after", "change", "of", "all"]
        assert "step time " in shown


@pytest.mark.slow
async def test_a_trace_is_compared_with_a_run_and_says_what_it_lacks(
    tmp_path: Path, monkeypatch: Patch
) -> None:
    monkeypatch.chdir(tmp_path)
    run = write_run(tmp_path / ".perftui" / "runs", run_id="20231114-201320-train")
    folder = tmp_path / "traces"
    folder.mkdir()
    async with opened(write_trace(folder, 24), replay=True) as (_, pilot):
        await press(pilot, "5", "b", until=run.name)
        await press(pilot, "1", until="no window of the first run was profiled")


async def test_a_run_is_compared_with_a_trace(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    write_trace(tmp_path, 24)
    run = write_run(tmp_path / ".perftui" / "runs", run_id="20231114-201320-train")
    async with opened(run) as (_, pilot):
        await press(pilot, "5", "b", until="rank0.pt.trace.json  trace")
        await press(pilot, "1", until="no window of the second run was profiled")


async def test_nothing_beside_it_is_said(tmp_path: Path, monkeypatch: Patch) -> None:
    monkeypatch.chdir(tmp_path)
    async with opened(write_trace(tmp_path), replay=True) as (app, pilot):
        await press(pilot, "5", until="to choose another trace, or a recorded run, as the baseline")
        assert "Try a fix" not in text_of(app)
        await press(pilot, "b", until="no other run or trace")
