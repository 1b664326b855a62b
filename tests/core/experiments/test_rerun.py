"""A change that did not reach the training proves nothing, and one that did is believed."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.experiments.comparison import Comparison, Verdict
from perftui.experiments.conditions import EDITED, edited
from perftui.experiments.journal import Proof, write_proof
from perftui.experiments.rerun import Arrival, overrides, own_edit, repeat_launch, rerun_launch
from perftui.experiments.trial_verdict import Outcome
from perftui.facts.fact import Facts
from perftui.facts.settings import Cudnn, Matmul, Settings, settings
from perftui.fixes.apply_and_undo import apply_patch, patch_store
from perftui.fixes.option import FixOption, Patch
from perftui.recorder.launch import Launch, prepare
from perftui.run.layout import RunLayout, trials_of
from perftui.run.manifest import Expected, Override, Status, read_manifest
from tests.core.diagnosis.runs import Events, make_run
from tests.core.experiments.test_comparison import compare

TRY = Override("DataLoader", {"num_workers": 2}, "/p/train.py", 3, "loader-workers")
OPTION = FixOption("loader-workers", "num_workers 0 -> 2", "", override=TRY)


def run(**changes):
    return make_run(root=Path("/runs/one"), cwd="/p", **changes)


def test_a_run_is_repeated_with_the_override_or_the_patch_that_replaces_it() -> None:
    launch = rerun_launch(run(), OPTION)
    assert launch.command == ("python", "train.py")
    assert launch.overrides == (TRY,)
    assert (launch.parent, launch.runs, launch.cwd) == ("one", Path("/runs"), Path("/p"))
    assert launch.name == "num_workers 0 -> 2"
    failed = run(count=0)
    failed = replace(failed, manifest=replace(failed.manifest, parent="zero"))
    assert rerun_launch(failed, OPTION).parent == "zero"
    other = Override("environment", {"OMP_NUM_THREADS": "1"}, fix="threads")
    launch = rerun_launch(run(overrides=(TRY, other)), OPTION, is_written=True)
    assert (launch.command, launch.overrides) == (("python", "train.py"), (other,))


def recorded(folder: Path, text: str, ms: float = 10) -> Facts:
    (folder / "train.py").write_text(text)
    (folder / "parts.py").write_text("size = 3\n")
    layout = prepare(Launch(("python", "train.py"), folder, folder / "runs"))
    events = (("process", {"argv0": "train.py"}),)
    phases = {"forward": ms}
    run = make_run(count=100, phases=phases, root=layout.root, cwd=str(folder), events=events)
    return Facts(run)


def test_two_runs_of_one_source_show_noise_and_no_gain(tmp_path: Path) -> None:
    first, again = recorded(tmp_path, "x = 1\n"), recorded(tmp_path, "x = 1\n", 8)
    found = compare(first.run, again.run)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == "both runs are of one program: so much do runs differ here"
    edited_run = recorded(tmp_path, "x = 2\n", 8).run
    assert compare(first.run, edited_run).verdict is Verdict.FASTER


def test_what_was_proven_of_a_fix_counts_for_the_run_after_it_was_written(tmp_path: Path) -> None:
    (source := tmp_path / "train.py").write_text("x = 1\n")
    first = recorded(tmp_path, "x = 1\n")
    assert first.run is not None
    patch = Patch(source, b"x = 1\n", b"x = 2\n")
    apply_patch(patch, patch_store(first.run.root), "x 1 -> 2", "a-fix")
    proof = Proof("a-fix", "x 1 -> 2", Outcome.FASTER, "2.00x faster", (), 0)
    write_proof(proof, trials_of(first.run.root))
    written, edited_too = recorded(tmp_path, "x = 2\n"), recorded(tmp_path, "x = 3\n")
    assert [compare(first.run, one.run).proof for one in (written, edited_too)] == [proof, None]


def test_an_edit_by_hand_is_tried_from_the_copies_that_both_runs_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first, second, third = (recorded(tmp_path, f"waits = {count}\n") for count in (9, 0, 0))
    edit = own_edit(first, second)
    assert edit is not None
    assert edit.is_triable
    assert first.run is not None
    launches = repeat_launch(first.run, edit), rerun_launch(first.run, edit)
    sides = [override for launch in launches for override in launch.overrides]
    assert {override.file for override in sides} == {str(tmp_path / "train.py")}
    texts = [Path(override.arguments["source"]).read_text() for override in sides]
    assert texts == ["waits = 9\n", "waits = 0\n"]
    assert [row.text for row in edited(first, second)] == [f"train.py {EDITED}"]
    assert own_edit(second, third) is None
    assert edited(second, third) == []
    assert second.run is not None
    proof = Proof(edit.fix, edit.title, Outcome.FASTER, "2.00x faster (1.90 to 2.10)", (), 0)
    write_proof(proof, trials_of(first.run.root))
    proven = [compare(*pair).proof for pair in ((first.run, second.run), (second.run, first.run))]
    assert proven == [proof, None]
    RunLayout(second.run.root).origin.unlink()
    monkeypatch.delenv("PERFTUI_TRUST_RUNS")
    assert own_edit(first, second) is None


DATA_LOADER = "torch.utils.data.DataLoader"


def test_a_run_of_a_patched_source_notes_what_was_written(tmp_path) -> None:
    patch = Patch(Path("/p/train.py"), b"", b"", {"num_workers": 2}, DATA_LOADER, 3)
    option = replace(OPTION, patch=patch)
    launch = rerun_launch(run(), option, is_written=True)
    layout = prepare(replace(launch, runs=tmp_path, cwd=tmp_path))
    written = (Expected("DataLoader", {"num_workers": 2}, "/p/train.py", 3),)
    assert read_manifest(layout.manifest).patched == written
    assert rerun_launch(run(), option).expected == ()
    assert repeat_launch(run(expected=written)).expected == ()


def test_a_second_try_replaces_the_first_and_what_cannot_be_tried_is_refused() -> None:
    first = Override("DataLoader", {"num_workers": 1}, "/p/train.py", 3, "loader-workers")
    assert rerun_launch(run(overrides=(first,)), OPTION).overrides == (TRY,)
    bare = FixOption("loader-workers", "", "", why_not="the dataset holds open files")
    with pytest.raises(ValueError, match="open files"):
        rerun_launch(run(), bare)


def test_the_profiler_looks_again_as_often_and_with_its_options() -> None:
    assert repeat_launch(run(profile={"window_steps": 5})).options.window_steps == 5
    assert repeat_launch(run(profile={"window_steps": "many"})).options.window_steps is None
    rates: list[Any] = [({"stack_rate": 25}, 25), ({"looks": 25}, 25), ({"stack_rate": 0}, 0)]
    for profile, rate in (*rates, ({"stack_rate": "often"}, 0)):
        assert repeat_launch(run(profile=profile)).stack_samples_per_second == rate
    assert repeat_launch(run(profile={})).stack_samples_per_second == 0
    assert repeat_launch(run(overrides=(TRY,))).overrides == (TRY,)


FILE = "/p/train.py"
LOADER = {"num_workers": 0, "file": FILE, "line": 3, "persistent_workers": False}
WORKERS = {**LOADER, "num_workers": 2, "persistent_workers": True}
WANTED = {"num_workers": 2, "persistent_workers": True}
WORKERS_TRIED = Override("DataLoader", WANTED, FILE, 3, "loader-workers")
FUSED_TRIED = Override("optimizer", {"fused": True}, FILE, 7, "optimizer-fused")
ADAM = {"name": "torch.optim.adamw.AdamW", "file": FILE, "line": 6, "end_line": 8, "fused": True}


def set_up(*optimizers: dict[str, Any]) -> tuple[str, dict[str, Any]]:
    return "settings", {"optimizers": list(optimizers), "gc": {"enabled": True}}


def note(
    outcome: str, why: str | None = None, number: int = 0, **more: Any
) -> tuple[str, dict[str, Any]]:
    place = {"file": FILE, "line": 6}
    return "override", {"number": number, "outcome": outcome, "why": why, **place, **more}


def trial(*overrides: Override, events: Events = (), loader=WORKERS, **run: Any) -> Comparison:
    """Of twice the speed, so that nothing but the effect decides."""
    loaders = () if loader is None else (loader,)
    return compare(
        make_run(count=100, phases={"forward": 20}, loaders=(LOADER,)),
        make_run(
            count=100, phases={"forward": 10}, loaders=loaders, overrides=overrides, events=events,
            **run,
        ),
    )  # fmt: skip


def reason(*overrides: Override, **run: Any) -> str:
    found = trial(*overrides, **run)
    assert found.verdict is Verdict.INCONCLUSIVE
    return found.reason


def test_an_override_that_nobody_applied_proves_nothing_once_the_call_is_over() -> None:
    assert reason(FUSED_TRIED, events=(set_up(),)) == (
        "fused=True did not reach the training: nothing was created at train.py:7"
    )
    everywhere = replace(FUSED_TRIED, file=None, line=None)
    assert reason(everywhere, events=(set_up(),)) == (
        "fused=True did not reach the training: no optimizer was created"
    )
    assert reason(FUSED_TRIED) == "the run does not record whether the change was applied"
    asked = Override("parameters", {"requires_grad": False}, fix="requires-grad-off")
    assert reason(asked, events=(set_up(),)) == (
        "requires_grad=False did not reach the training: the training has made fewer than three "
        "steps"
    )
    assert reason(FUSED_TRIED, events=(set_up(),), status=Status.RUNNING).endswith(
        "nothing was created at train.py:7 so far"
    )


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (
            (note("refused", "fused: LBFGS does not take it"),),
            "fused=True was refused at train.py:6 (fused: LBFGS does not take it)",
        ),
        (
            (note("partly", "foreach: fused is set and excludes it"),),
            "fused=True reached the training only in part at train.py:6 (foreach: fused is set "
            "and excludes it)",
        ),
        (
            (note("applied"), note("refused", "fused: Muon does not take it", line=9)),
            "fused=True reached the training only in part at train.py:9 "
            "(fused: Muon does not take it)",
        ),
        ((note("applied", number=1),), "the run does not record whether the change was applied"),
    ],
)
def test_an_override_that_was_refused_proves_nothing(told: Events, said: str) -> None:
    assert reason(FUSED_TRIED, events=told) == said


def test_overrides_that_were_applied_are_believed_each_for_itself() -> None:
    assert trial(FUSED_TRIED, events=(note("applied"),)).verdict is Verdict.FASTER
    both = (WORKERS_TRIED, FUSED_TRIED)
    told = (note("applied"), note("refused", "fused: no", number=1))
    assert "fused=True was refused" in reason(*both, events=told)
    told = (note("applied"), note("applied", number=1))
    assert trial(*both, events=told).verdict is Verdict.FASTER


def test_an_override_applied_at_another_loader_than_the_trainings_proves_nothing() -> None:
    assert reason(WORKERS_TRIED, events=(note("applied"),), loader=LOADER) == (
        "num_workers, persistent_workers had no effect at the training's loader (it is created "
        "elsewhere)"
    )
    assert reason(WORKERS_TRIED, events=(note("applied"),), loader=None) == (
        "the run does not record whether the change was applied"
    )


def test_loaders_that_are_made_by_the_same_call_may_refuse_it() -> None:
    told = (note("applied"), note("refused", "num_workers: the dataset holds open files"))
    assert trial(WORKERS_TRIED, events=told).verdict is Verdict.FASTER


def test_a_patch_of_the_loader_has_to_be_in_force_there() -> None:
    written = (Expected("DataLoader", {"num_workers": 2}, FILE, 3),)
    assert reason(expected=written, loader=LOADER) == (
        "num_workers had no effect at the training's loader (the edited source does not decide "
        "the value)"
    )
    assert trial(expected=written).verdict is Verdict.FASTER
    unsaid = "the run does not record whether the change was applied"
    assert reason(expected=written, loader=None) == unsaid


@pytest.mark.parametrize("target", ["optimizer", "AdamW"])
def test_a_patch_of_an_optimizer_has_to_be_in_force_there(target: str) -> None:
    written = (Expected(target, {"fused": True}, FILE, 7),)
    assert trial(expected=written, events=(set_up(ADAM),)).verdict is Verdict.FASTER
    plain = {**ADAM, "fused": None}
    assert reason(expected=written, events=(set_up(plain),)) == (
        "fused had no effect at train.py:6 (AdamW has fused=None)"
    )
    elsewhere = {**ADAM, "line": 20, "end_line": 20}
    assert reason(expected=written, events=(set_up(elsewhere),)) == (
        "fused=True did not reach the training: nothing was created at train.py:7"
    )
    assert reason(expected=written) == "the run does not record whether the change was applied"


@pytest.mark.parametrize("ended", [{}, {"exit_code": 1}, {"exit_code": 0, "status": Status.LOST}])
def test_runs_that_came_to_their_ends_have_to_train_as_many_steps(ended: dict[str, Any]) -> None:
    sized = {"phases": {"forward": 20}, "loaders": ({**LOADER, "batch_size": 16},)}
    long = {**sized, "phases": {"forward": 10}, "count": 150}
    before = make_run(count=100, **sized, exit_code=0)
    found = compare(before, make_run(**long, exit_code=0))
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.headline == "2.00x faster, not certain"
    assert found.reason == (
        "100 and 150 steps (up to 1,600 and 2,400 samples), so only step times are compared"
    )
    assert compare(before, make_run(**long, **ended)).verdict is Verdict.FASTER
    limited = make_run(**long, exit_code=0, profile={"max_steps": 150})
    assert compare(before, limited).verdict is Verdict.FASTER


def test_steps_that_were_lost_are_not_counted_as_untrained() -> None:
    before = make_run(count=100, phases={"forward": 20}, exit_code=0)
    whole = make_run(count=120, phases={"forward": 10}, exit_code=0)
    (rank,) = whole.ranks
    some = rank.steps.where(rank.steps["index"] % 10 > 0)
    lost = replace(whole, ranks=(replace(rank, steps=some),))
    assert compare(before, lost).verdict is Verdict.FASTER
    assert compare(before, whole).verdict is Verdict.INCONCLUSIVE


def test_what_became_of_an_override_is_reported_with_its_values() -> None:
    run = make_run(overrides=(FUSED_TRIED,), events=(note("applied", values={"fused": True}),))
    (applied,) = overrides(Facts(run))
    assert (applied.arrival, applied.why, applied.place) == (Arrival.APPLIED, "", "train.py:6")
    assert applied.values == {"fused": True}


@pytest.mark.parametrize("data", [{}, {"outcome": 3, "why": [], "line": "x", "values": 1}])
def test_notes_in_another_form_are_no_proof(data: dict[str, Any]) -> None:
    run = make_run(overrides=(FUSED_TRIED,), events=(("override", {"number": 0, **data}),))
    assert [one.arrival for one in overrides(Facts(run))] == [Arrival.PARTLY]


def test_settings_are_read_field_by_field() -> None:
    told = {
        "threads": {"intra_op": 4, "inter_op": 2, "new": 1},
        "environment": {"NCCL_DEBUG": "INFO"},
        "matmul": "high",
        "cudnn": None,
        "optimizers": [ADAM],
        "wrappers": [
            {"name": "DistributedDataParallel", "count": 1, "arguments": {"static_graph": True}}
        ],
        "parameters": [{"dtype": "float32", "device": "cpu", "tensors": 4}],
        "gc": {"enabled": True, "thresholds": [700, 10, 10]},
        "compiled": 1,
    }
    found = settings(Facts(make_run(events=(("settings", told),))))
    assert (found.threads.intra_op, found.threads.inter_op) == (4, 2)
    assert (found.matmul, found.cudnn, found.compiled) == (Matmul(), Cudnn(), None)
    assert found.environment == {"NCCL_DEBUG": "INFO"}
    assert found.gc.thresholds == (700, 10, 10)
    assert found.optimizers is not None
    assert found.optimizers[0].class_name == "AdamW"
    assert found.wrappers is not None
    assert found.wrappers[0].arguments == {"static_graph": True}
    assert found.parameters is not None
    assert found.parameters[0].tensors == 4
    assert settings(Facts(make_run())) == Settings()
