"""What a tuning keeps, tells and leaves behind, with runs whose times are known."""

import stat
import threading
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.experiments import trial as trials
from perftui.experiments import tune as tuning
from perftui.experiments.journal import (
    NAME,
    Journal,
    Kept,
    journal_of,
    keep_proof,
    proof_of,
    read_proof,
)
from perftui.experiments.trial_runs import Progress, TrialCancelledError, TrialError, TrialSetup
from perftui.experiments.trial_verdict import Outcome, TrialVerdict
from perftui.experiments.tune import Keeping, Trying, Tuned
from perftui.fixes.apply_and_undo import last_applied, patch_store, undo
from perftui.fixes.option import FixOption, Patch, Risk
from perftui.recorder.launch import Launch
from perftui.run.layout import trials_of
from perftui.run.manifest import Override
from tests.core.diagnosis.runs import MS
from tests.tui.fake_trial import progress_of
from tests.tui.recorded import ENDED, write_run

BEFORE, AFTER = b"workers = 0\n", b"workers = 4\n"


@dataclass
class Training:
    """A training whose fixes make it so many times as fast; ``offered`` are all that it has."""

    runs: Path
    first: Path
    offered: list[FixOption]
    gains: dict[str, float]
    together: float = 3.0
    lost: set[str] = field(default_factory=set)
    """Fixes that a run recorded with them does not show."""
    cancel_at: str = ""
    fails: str = ""
    """The fix with which the training ends with an error once it is in the source."""
    is_stopped_at: str = ""
    """The fix whose recording is stopped."""
    trying: str = ""
    recorded: int = 0

    @property
    def directory(self) -> Path:
        return trials_of(self.first)

    def offers(self, root: Path) -> Sequence[FixOption]:
        assert root.is_dir()
        return self.offered

    def paired(self, _: Launch, after: Launch, *__: Any, **___: Any) -> Iterator[Progress]:
        name = after.name or "all of it"
        if name == self.cancel_at:
            raise TrialCancelledError
        for count in (1, 6):
            yield progress_of(*[self.gains.get(name, self.together)] * count)

    def record(self, launch: Launch, *_: Any) -> Path:
        self.recorded += 1
        self.trying = launch.name or ""
        if self.trying == self.is_stopped_at:
            raise TrialCancelledError
        if self.trying == self.fails:
            raise TrialError("with the fix the run ended with exit code 1")
        return write_run(self.runs, run_id=f"2023111{self.recorded + 4}-000000-train", **ENDED)

    def missed(self, _: object) -> str:
        return "it was refused" if self.trying in self.lost else ""

    def tune(self, deadline: float = float("inf")) -> list[tuning.Event]:
        setup = TrialSetup(self.directory, 80, threading.Event())
        return list(tuning.tune(self.first, setup, self.offers, deadline))


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "train.py"
    path.write_bytes(BEFORE)
    return path


@pytest.fixture
def training(tmp_path: Path, script: Path, monkeypatch: pytest.MonkeyPatch) -> Training:
    runs = tmp_path / ".perftui" / "runs"
    patch = Patch(script, BEFORE, AFTER)
    offered = [
        FixOption("a", "four workers", "", (Risk.MEMORY,), patch=patch, script_word=1),
        FixOption("b", "pinned memory", "", override=Override("x", {}, fix="b")),
        FixOption("c", "fused", "", override=Override("y", {}, fix="c"), advice="fused=True"),
        FixOption("d", "by hand", "", advice="think"),
    ]
    first = write_run(runs, cwd=str(tmp_path), **ENDED)
    gains = {"four workers": 2.0, "pinned memory": 1.0, "fused": 1.5}
    made = Training(runs, first, offered, gains)
    for where in (tuning, trials):
        monkeypatch.setattr(where, "paired_runs", made.paired)
    monkeypatch.setattr(tuning, "record", made.record)
    monkeypatch.setattr(tuning, "facts_of", lambda _: SimpleNamespace())
    monkeypatch.setattr(tuning, "missed", made.missed)
    return made


def journals(events: Sequence[tuning.Event]) -> list[Journal]:
    return [event for event in events if isinstance(event, Journal)]


def test_each_fix_is_tried_and_what_is_proven_is_kept(training: Training, script: Path) -> None:
    events = training.tune()
    told = [
        f"{event.option.title} {len(event.progress.pairs)}"
        for event in events
        if isinstance(event, Trying)
    ]
    names = ("four workers", "pinned memory", "fused", "all fixes together")
    assert told == [f"{name} {count}" for name in names for count in (0, 1, 6)]
    kept = [(event.option.fix, event.path) for event in events if isinstance(event, Keeping)]
    assert kept == [("a", script), ("c", None)]
    assert [len(one.attempts) for one in journals(events)] == [0, 1, 2, 3]
    last = events[-1]
    assert isinstance(last, Tuned)
    assert last.final.verdict.headline == "3.00x faster (3.00 to 3.00)"
    assert [(round(ratio, 2), one.fix) for ratio, one in last.journal.ladder] == [
        (2.0, "a"),
        (3.0, "c"),
    ]
    assert [one.fix for one in last.journal.left] == ["b"]
    assert last.journal.files == ("train.py",)
    assert script.read_bytes() == AFTER
    assert tuning.together(last.journal).risks == (Risk.MEMORY,)


def test_what_was_tried_is_proven_beside_the_runs_it_was_tried_on(training: Training) -> None:
    last = training.tune()[-1]
    assert isinstance(last, Tuned)
    proofs = {fix: read_proof(training.directory, fix) for fix in "abc"}
    assert all(proofs.values())
    assert proofs["a"]
    assert (proofs["a"].headline, proofs["a"].notes) == ("2.00x faster (2.00 to 2.00)", ())
    assert proofs["c"]
    assert proofs["c"].notes == ("measured on top of four workers",)
    # The run recorded last is still offered what was not kept.
    left = read_proof(trials_of(Path(last.journal.base)), "b")
    assert left.headline == "no difference (1.00 to 1.00)"
    assert left.notes == ("measured before fused",)


def test_a_further_change_by_the_same_fix_leaves_the_proof_of_the_first(training: Training) -> None:
    training.offered[1] = FixOption("a", "eight workers", "", override=Override("x", {}))
    training.gains["eight workers"] = 1.0
    last = training.tune()[-1]
    assert isinstance(last, Tuned)
    proofs = [
        read_proof(where, "a") for where in (training.directory, trials_of(Path(last.journal.base)))
    ]
    assert [proof.title for proof in proofs if proof] == ["four workers", "eight workers"]


def test_it_goes_on_where_it_was_stopped(training: Training, script: Path) -> None:
    training.cancel_at = "pinned memory"
    with pytest.raises(TrialCancelledError):
        training.tune()
    assert script.read_bytes() == AFTER
    training.cancel_at = ""
    first, *others = journals(training.tune())
    assert [(one.fix, one.kept) for one in first.attempts] == [("a", Kept.WRITTEN)]
    assert len(others) == 2
    assert training.recorded == 2


def test_a_stop_while_a_kept_fix_is_recorded_is_safe(training: Training, script: Path) -> None:
    training.is_stopped_at = "four workers"
    with pytest.raises(TrialCancelledError):
        training.tune()
    assert script.read_bytes() == AFTER
    training.is_stopped_at = ""
    first, again, *others = training.tune()
    assert isinstance(first, Journal)
    assert [one.kept for one in first.attempts] == [Kept.WRITTEN]
    assert Path(first.base) == training.first
    assert isinstance(again, Keeping)
    assert again.option.title == "four workers"
    last = others[-1]
    assert isinstance(last, Tuned)
    assert [one.fix for one in last.journal.attempts] == ["a", "b", "c"]
    assert Path(last.journal.base) != training.first


def test_a_fix_with_which_a_training_fails_is_taken_back(training: Training, script: Path) -> None:
    training.fails = "four workers"
    last = training.tune()[-1]
    assert isinstance(last, Tuned)
    assert script.read_bytes() == BEFORE
    first = last.journal.attempts[0]
    assert (first.kept, first.headline) == (Kept.NO, "with the fix the run ended with exit code 1")
    assert [one.fix for one in last.journal.kept] == ["c"]


def test_after_what_is_written_is_taken_back_it_begins_anew(
    training: Training, script: Path
) -> None:
    training.tune()
    store = patch_store(training.first)
    applied = last_applied(store)
    assert applied is not None
    assert len(journal_of(training.first, training.directory).attempts) == 3
    undo(applied, store)
    assert script.read_bytes() == BEFORE
    assert journal_of(training.first, training.directory).attempts == ()
    assert [len(one.attempts) for one in journals(training.tune())] == [0, 1, 2, 3]


def test_a_journal_of_another_run_is_not_gone_on_with(training: Training, tmp_path: Path) -> None:
    training.tune()
    assert journal_of(tmp_path / "other", training.directory).attempts == ()


def test_a_patch_that_does_not_reach_the_training_is_taken_back(
    training: Training, script: Path
) -> None:
    training.lost = {"four workers"}
    last = training.tune()[-1]
    assert isinstance(last, Tuned)
    assert script.read_bytes() == BEFORE
    first = last.journal.attempts[0]
    assert (first.kept, first.outcome) == (Kept.NO, "no effect")


def test_past_its_end_it_begins_no_further_fix(training: Training) -> None:
    first, last = training.tune(deadline=0)
    assert isinstance(first, Journal)
    assert last == Tuned(first, None)
    assert not (training.directory / NAME).exists()


def test_a_run_that_lies_elsewhere_can_take_everything_back(
    training: Training, tmp_path: Path, script: Path
) -> None:
    training.runs = tmp_path / "elsewhere"
    training.first = write_run(training.runs, cwd=str(tmp_path), **ENDED)
    second = Patch(script, AFTER, b"workers = 8\n")
    training.offered[1] = FixOption("e", "eight workers", "", patch=second, script_word=1)
    training.gains["eight workers"] = 1.2
    training.tune()
    store = patch_store(training.first)
    for content in (AFTER, BEFORE):
        applied = last_applied(store)
        assert applied is not None
        undo(applied, store)
        assert script.read_bytes() == content


FASTER = [2.0, 2.1, 2.15, 2.05, 2.2, 2.1]
UNCLEAR = [0.9, 1.2, 1.1, 0.95, 1.05, 1.1]


def option(title: str = "num_workers 0 -> 4", fix: str = "loader-workers") -> FixOption:
    return FixOption(fix, title, "")


def test_what_was_kept_is_read_again(tmp_path: Path) -> None:
    directory = tmp_path / "trials" / "run"
    measured = progress_of(*FASTER, notes=("the host was busy",))
    kept = keep_proof(option(), measured, directory, 17)
    assert read_proof(directory, "loader-workers") == kept
    assert (kept.outcome, kept.headline) == (Outcome.FASTER, "2.10x faster (2.00 to 2.20)")
    assert (len(kept.pairs), kept.measured_ns) == (6, 17)
    assert kept.pairs[0].before_ns == 300 * MS
    assert kept.notes == ("the host was busy",)
    (file,) = directory.iterdir()
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_too_few_pairs_prove_nothing_and_no_effect_is_known_after_one(tmp_path: Path) -> None:
    assert proof_of(option(), progress_of(*FASTER[:5]), 1) is None
    assert keep_proof(option(), progress_of(*FASTER[:5]), tmp_path, 1) is None
    kept = keep_proof(option(), progress_of(*FASTER), tmp_path, 2)
    assert keep_proof(option(), progress_of(*FASTER[:5]), tmp_path, 3) == kept
    without = Progress(
        progress_of(1.0).pairs, TrialVerdict(Outcome.NO_EFFECT, "no effect: refused")
    )
    kept = keep_proof(option(), without, tmp_path, 1)
    assert (kept.headline, kept.ratio) == ("no effect: refused", None)


def test_a_trial_that_was_stopped_does_not_hide_one_that_went_on(tmp_path: Path) -> None:
    long = keep_proof(option(), progress_of(*UNCLEAR, *UNCLEAR[:3]), tmp_path, 1)
    assert keep_proof(option(), progress_of(*UNCLEAR), tmp_path, 2) == long
    other = keep_proof(option("num_workers 0 -> 8"), progress_of(*UNCLEAR), tmp_path, 3)
    assert other.title == "num_workers 0 -> 8"
    decided = keep_proof(option("num_workers 0 -> 8"), progress_of(*FASTER), tmp_path, 4)
    assert decided.is_faster


def test_a_damaged_foreign_or_newer_file_is_none(tmp_path: Path) -> None:
    assert read_proof(tmp_path / "nowhere", "loader-workers") is None
    keep_proof(option(), progress_of(*FASTER), tmp_path, 1)
    (file,) = tmp_path.iterdir()
    whole = file.read_bytes()
    newer = whole.replace(b'"schema":1', b'"schema":2')
    assert newer != whole
    for content in (b"", whole[:-20], b"[]", newer, whole.replace(b"loader-workers", b"other")):
        file.write_bytes(content)
        assert read_proof(tmp_path, "loader-workers") is None


def test_a_name_leads_nowhere_else(tmp_path: Path) -> None:
    directory = tmp_path / "trials"
    keep_proof(option(fix="../../x"), progress_of(*FASTER), directory, 1)
    assert [path.name for path in directory.iterdir()] == [".._.._x.proof.json"]


def test_trials_are_kept_apart_from_runs() -> None:
    usual = Path("/here/.perftui/runs/one")
    assert trials_of(usual) == Path("/here/.perftui/trials/one")
    assert trials_of(Path("/there/one")) == Path("/there/one/trials/one")
