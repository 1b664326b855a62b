"""What trials and isolation report, as text and as JSON."""

from dataclasses import replace
from pathlib import Path

import pytest

from perftui.experiments.comparison import Verdict, compare
from perftui.experiments.isolate import Isolated, Isolation, Side, experiments
from perftui.experiments.journal import Attempt, Journal, Kept
from perftui.experiments.trial_runs import Arm, Pair, Progress, TrialRun
from perftui.experiments.trial_verdict import judge
from perftui.experiments.tune import Tuned
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.fact import Facts
from perftui.fixes.apply_and_undo import apply_patch, patch_store
from perftui.fixes.option import FixOption, Patch, Risk
from perftui.report import comparison, trial
from perftui.report.output_text import encode_object
from perftui.report.trial import isolation_object, isolation_text
from perftui.run.manifest import Override
from tests.core.diagnosis.runs import make_run
from tests.described import described
from tests.facts_given import facts_with

PATCH = Patch(Path("/p/train.py"), b"", b"x")
RISKS = (Risk.MEMORY, Risk.NUMERICS)
OPTION = FixOption("a", "do a", "", RISKS, patch=PATCH, script_word=1)
ROOT = Path("/p/.perftui/runs/one")
MS = 1_000_000


def progress(ratio: float, pairs: int = 6, notes: tuple[str, ...] = ()) -> Progress:
    made = tuple(
        Pair(
            TrialRun(Arm.BEFORE, ROOT / f"{at}-before", round(ratio * (10 * MS + at))),
            TrialRun(Arm.AFTER, ROOT / f"{at}-after", 10 * MS + at),
        )
        for at in range(pairs)
    )
    verdict = judge([pair.ratio for pair in made])
    return Progress(made, verdict, 0.01, ("num_workers 0 -> 2",), notes)


def test_a_trial_that_is_faster_tells_to_write_it() -> None:
    run = make_run(root=ROOT)
    found = described("try", trial.trial_object(OPTION, run, progress(2.0)))
    assert (found["outcome"], round(found["ratio"], 3)) == ("faster", 2.0)
    assert found["next"] == ["perftui", "apply", "a", str(ROOT)]
    assert found["changes_numerics"] is True
    assert len(found["pairs"]) == 6
    assert trial.trial_text(OPTION, run, progress(2.0)).splitlines()[-1] == (
        f"  next: perftui apply a {ROOT}"
    )


def test_what_cannot_be_written_is_reported_as_somebody_would_write_it() -> None:
    option = replace(OPTION, patch=None, override=Override("x", {}), advice="At a.py:3: f(x=2)")
    found = described("try", trial.trial_object(option, make_run(), progress(2.0)))
    assert (found["advice"], found["next"]) == ("At a.py:3: f(x=2)", [])
    assert described("brief", trial.brief_object(option, make_run(), progress(2.0)))["advice"]
    assert "  by hand: At a.py:3: f(x=2)\n" in trial.trial_text(option, make_run(), progress(2.0))
    assert described("try", trial.trial_object(OPTION, make_run(), progress(2.0)))["advice"] is None


@pytest.mark.parametrize("ratio", [0.5, 1.0])
def test_one_that_is_not_tells_nothing(ratio: float) -> None:
    assert described("try", trial.trial_object(OPTION, make_run(), progress(ratio)))["next"] == []


@pytest.mark.parametrize(("ratio", "following"), [(1.0, "other-fix"), (2.0, None)])
def test_where_it_gains_nothing_the_next_fix_of_the_finding_is_tried(
    ratio: float, following: str | None
) -> None:
    run, others = make_run(), ("other-fix", "third-fix")
    found = described("try", trial.trial_object(OPTION, run, progress(ratio), others))
    wanted = ["perftui", "try", following, str(run.root)] if following else None
    assert found["next"] == (wanted or ["perftui", "apply", OPTION.fix, str(run.root)])
    assert f"next: perftui {found['next'][1]}" in trial.brief_text(
        OPTION, run, progress(ratio), others
    )


def test_a_brief_trial_has_the_next_command_second_and_no_single_pairs() -> None:
    run, made = make_run(root=ROOT), progress(2.0, 14, ("the host was busy: make",))
    lines = trial.brief_text(OPTION, run, made).splitlines()
    assert lines[0].startswith("do a: 2.00x faster")
    assert lines[1] == f"  next: perftui apply a {ROOT}"
    assert sorted(lines) == sorted(trial.trial_text(OPTION, run, made).splitlines())
    found = described("brief", trial.brief_object(OPTION, run, made))
    assert (found["pairs"], found["next"][:2]) == (14, ["perftui", "apply"])
    assert "the host was busy: make" in found["notes"]


def test_a_brief_trial_is_2000_bytes_at_most() -> None:
    notes = tuple(f"{at} {'note ' * 100}" for at in range(40))
    long = make_run(root=Path("/" + "r" * 3000))
    option = replace(OPTION, title="t" * 3000)
    for run in (make_run(root=ROOT), long):
        text = trial.brief_text(option, run, progress(2.0, notes=notes))
        assert text.endswith("\n")
        assert len(text.encode()) <= 2_000
        found = trial.brief_object(option, run, progress(2.0, notes=notes))
        assert len(encode_object(found, on_one_line=True).encode()) <= 2_000
        assert bool(described("brief", found)["next"]) is (run is not long)


def test_names_of_programs_cannot_drive_the_terminal() -> None:
    made = progress(2.0, notes=("the host was busy: \x1b[2J",))
    for text in (trial.trial_text, trial.brief_text):
        assert "\x1b" not in text(OPTION, make_run(), made)


def test_a_tuning_tells_what_was_kept() -> None:
    kept = Attempt("a", "do a", "faster", "2.00x faster", 2.0, kept=Kept.WRITTEN, risks=RISKS)
    left = Attempt("b", "do b", "slower", "1.10x slower", 0.9)
    journal = Journal(str(ROOT), str(ROOT), (kept, left))
    found = described("tune", trial.tuning_object(Tuned(journal, progress(2.0)), ROOT))
    assert [one["fix"] for one in found["kept"] + found["not_kept"]] == ["a", "b"]
    assert found["undo"] == [["perftui", "undo", str(ROOT)]]
    assert found["diff"] is None
    nothing = described("tune", trial.tuning_object(Tuned(Journal("", ""), None), ROOT))
    assert (nothing["outcome"], nothing["ratio"]) == ("no difference", None)


def test_a_tuning_ends_with_what_it_wrote(tmp_path: Path) -> None:
    script, copy = tmp_path / "train.py", tmp_path / "copy"
    script.write_text("a\nb\n\x1b[2J\n")
    copy.write_text("a\n\x1b[2J\n")
    journal = Journal("", "", originals={str(script): str(copy), "/gone": "/gone"})
    text = trial.tuning_text(Tuned(journal, None), ROOT)
    assert text.splitlines()[1:] == [
        "--- train.py (as it was)",
        "+++ train.py (tuned)",
        "@@ -1,3 +1,4 @@",
        " a",
        "+b",
        " \\x1b[2J",
        " ",
    ]
    found = described("tune", trial.tuning_object(Tuned(journal, None), ROOT))
    assert found["diff"].splitlines()[4] == "+b"


def runs(tmp_path: Path, first_ms: float, second_ms: float, between: int) -> tuple[Facts, Facts]:
    began = between - 10**9, between + 10**9
    return tuple(  # type: ignore[return-value]
        Facts(
            make_run(
                100,
                {"forward": each},
                root=tmp_path / ".perftui" / "runs" / name,
                started_ns=started,
            )
        )
        for each, name, started in zip((first_ms, second_ms), ("one", "two"), began, strict=True)
    )


def test_a_faster_run_is_diagnosed_next(tmp_path: Path) -> None:
    before, after = runs(tmp_path, 20, 10, 10**18)
    found = compare(before, after)
    assert found.verdict is Verdict.FASTER
    told = described("compare", comparison.as_object(found))
    assert told["next"] == ["perftui", "report", str(after.run and after.run.root)]
    brief = described("brief", comparison.brief_object(found))
    assert (brief["largest_change"], brief["largest_change_ns"]) == ("forward", -10 * MS)
    text = comparison.brief_text(found).splitlines()
    assert text[0].startswith("2.00x faster: ")
    assert text[1].startswith("  next: perftui report ")
    assert text[2] == "  forward 20 ms -> 10 ms"


def test_a_fix_that_was_written_in_between_and_made_it_slower_is_taken_out(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_bytes(b"a = 1\n")
    store = patch_store(tmp_path / ".perftui" / "runs" / "two")
    applied = apply_patch(Patch(script, b"a = 1\n", b"a = 2\n"), store, "a", "a")
    before, after = runs(tmp_path, 10, 20, applied.applied_ns)
    told = described("compare", comparison.as_object(compare(before, after)))
    assert told["outcome"] == "slower"
    assert told["next"] == ["perftui", "undo", str(after.run and after.run.root)]
    older = runs(tmp_path, 10, 20, applied.applied_ns - 10**10)
    assert described("compare", comparison.as_object(compare(*older)))["next"] is None


def test_runs_that_tell_nothing_have_no_largest_change(tmp_path: Path) -> None:
    before, after = runs(tmp_path, 10, 10, 10**18)
    found = compare(Facts(make_run(count=0)), after)
    assert described("brief", comparison.brief_object(found))["largest_change"] is None
    assert comparison.brief_text(found).startswith("not certain: ")
    assert described("compare", comparison.as_object(compare(before, after)))["next"] is None


def side(which: Side, *times: int, problem: str = "") -> Isolated:
    of_loader = which in (Side.TRAINING, Side.WORKER)
    taken = tuple(time * MS for time in times)
    return Isolated(which, f"without {which.value}", (), of_loader, problem, taken)


FOUND = Isolation(
    (20 * MS, 22 * MS, 21 * MS),
    (
        side(Side.INPUT, 5, 5, 6),
        side(Side.TRAINING, 16, 17, 16),
        side(Side.WORKER, 18, 19, 18),
        side(Side.OUTPUT, 21, 21, 20),
    ),
)


def test_each_side_says_what_losing_it_would_gain() -> None:
    assert isolation_text(FOUND).splitlines() == [
        "a step takes 21 ms unchanged (20 ms to 22 ms in 3 runs)",
        "  without input: 5.0 ms (5.0 ms to 6.0 ms in 3 runs); "
        "at most 4.20x from a faster data loader",
        "  without training: 16 ms for the batches of a step (16 ms to 17 ms in 3 runs); "
        "at most 1.31x from everything but the loader",
        "  without worker: 18 ms for the batches of a step (18 ms to 19 ms in 3 runs); "
        "4 workers keep up with a step of 5.0 ms",
        "  without output: 21 ms (20 ms to 21 ms in 3 runs); nothing from less printing, logging "
        "and saving",
    ]


def test_the_same_for_programs() -> None:
    found = described("isolate", isolation_object(FOUND, make_run(root=Path("run"))))
    assert (found["step_ns"], found["runs_ns"]) == (21 * MS, [20 * MS, 22 * MS, 21 * MS])
    assert [one["side"] for one in found["sides"]] == ["input", "training", "worker", "output"]
    assert found["sides"][0]["at_most"] == 4.2
    assert all(one["problem"] is None for one in found["sides"])


def test_a_side_without_a_time_says_why() -> None:
    found = Isolation(
        (20 * MS,), (side(Side.INPUT, problem="no DataLoader"), side(Side.WORKER, 18))
    )
    assert isolation_text(found).splitlines()[1:] == [
        "  without input: not measured: no DataLoader",
        "  without worker: 18 ms for the batches of a step (18 ms to 18 ms in 1 run); how many "
        "workers would keep up is not known",
    ]
    plain = described("isolate", isolation_object(found, make_run(root=Path("run"))))
    assert plain["sides"][0]["at_most"] is None
    assert plain["sides"][0]["problem"] == "no DataLoader"


def test_nothing_is_said_before_the_first_run() -> None:
    assert isolation_text(Isolation()) == "no run finished\n"


def reasons(loader: LoaderFacts | None) -> dict[str, str]:
    found = experiments(facts_with(Facts(None), {training_loader: loader}))
    return {one.side.value: one.problem for one in found}


@pytest.mark.parametrize(
    ("loader", "input_why", "worker_why"),
    [
        (None, "no DataLoader feeds the training", "no DataLoader feeds the training"),
        (LoaderFacts(num_workers=1), "", "it already has one worker"),
        (
            LoaderFacts(num_workers=0, holds_files=True),
            "",
            "the dataset holds open files or generators, which workers would share",
        ),
        (LoaderFacts(num_workers=0), "", ""),
    ],
)
def test_what_cannot_be_left_out_says_so(
    loader: LoaderFacts | None, input_why: str, worker_why: str
) -> None:
    assert reasons(loader) == {
        "input": input_why,
        "training": input_why,
        "worker": worker_why,
        "output": "",
    }
