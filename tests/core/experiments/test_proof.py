"""What a trial came to is kept beside its runs, for as long as it is the most that is known."""

from __future__ import annotations

import stat
from pathlib import Path

from perftui.experiments.journal import keep_proof, proof_of, read_proof
from perftui.experiments.trial_runs import Arm, Pair, Progress, TrialRun
from perftui.experiments.verdict import Outcome, TrialVerdict, judge
from perftui.fixes.model import FixOption
from perftui.run.layout import trials_of

MS = 1_000_000
FASTER = [2.0, 2.1, 2.15, 2.05, 2.2, 2.1]
UNCLEAR = [0.9, 1.2, 1.1, 0.95, 1.05, 1.1]


def progress(*ratios: float) -> Progress:
    pairs = tuple(
        Pair(
            TrialRun(Arm.BEFORE, Path("before"), round(100 * MS * ratio)),
            TrialRun(Arm.AFTER, Path("after"), 100 * MS),
        )
        for ratio in ratios
    )
    return Progress(pairs, judge([pair.ratio for pair in pairs]), notes=("the host was busy",))


def option(title: str = "num_workers 0 -> 4", fix: str = "loader-workers") -> FixOption:
    return FixOption(fix, title, "")


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    directory = tmp_path / "trials" / "run"
    kept = keep_proof(option(), progress(*FASTER), directory, 17)
    assert kept is not None
    assert read_proof(directory, "loader-workers") == kept
    assert (kept.outcome, kept.headline) == (Outcome.FASTER, "2.10x faster (2.00 to 2.20)")
    assert (len(kept.pairs), kept.measured_ns) == (6, 17)
    assert kept.pairs[0].before_ns == 200 * MS
    assert kept.notes == ("the host was busy",)
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_too_few_pairs_prove_nothing_and_leave_what_was_known(tmp_path: Path) -> None:
    assert proof_of(option(), progress(*FASTER[:5]), 1) is None
    assert keep_proof(option(), progress(*FASTER[:5]), tmp_path, 1) is None
    kept = keep_proof(option(), progress(*FASTER), tmp_path, 2)
    assert keep_proof(option(), progress(*FASTER[:5]), tmp_path, 3) == kept


def test_a_change_without_effect_is_known_after_one_pair(tmp_path: Path) -> None:
    without = Progress(progress(1.0).pairs, TrialVerdict(Outcome.NO_EFFECT, "no effect: refused"))
    kept = keep_proof(option(), without, tmp_path, 1)
    assert kept is not None
    assert (kept.headline, kept.ratio) == ("no effect: refused", None)


def test_a_trial_that_was_stopped_does_not_hide_one_that_went_on(tmp_path: Path) -> None:
    long = keep_proof(option(), progress(*UNCLEAR, *UNCLEAR[:3]), tmp_path, 1)
    assert keep_proof(option(), progress(*UNCLEAR), tmp_path, 2) == long
    other = keep_proof(option("num_workers 0 -> 8"), progress(*UNCLEAR), tmp_path, 3)
    assert other is not None
    assert other.title == "num_workers 0 -> 8"
    decided = keep_proof(option("num_workers 0 -> 8"), progress(*FASTER), tmp_path, 4)
    assert decided is not None
    assert decided.is_faster


def test_a_damaged_foreign_or_newer_file_is_none(tmp_path: Path) -> None:
    assert read_proof(tmp_path / "nowhere", "loader-workers") is None
    keep_proof(option(), progress(*FASTER), tmp_path, 1)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    newer = whole.replace(b'"schema":1', b'"schema":2')
    assert newer != whole
    for content in (b"", whole[:-20], b"[]", newer, whole.replace(b"loader-workers", b"other")):
        file.write_bytes(content)
        assert read_proof(tmp_path, "loader-workers") is None


def test_a_name_leads_nowhere_else(tmp_path: Path) -> None:
    directory = tmp_path / "trials"
    keep_proof(option(fix="../../x"), progress(*FASTER), directory, 1)
    assert [path.name for path in directory.iterdir()] == [".._.._x.proof.json"]


def test_trials_are_kept_apart_from_runs() -> None:
    usual = Path("/here/.perftui/runs/one")
    assert trials_of(usual) == Path("/here/.perftui/trials/one")
    assert trials_of(Path("/there/one")) == Path("/there/one/trials/one")
