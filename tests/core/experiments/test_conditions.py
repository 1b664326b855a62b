"""What differs between the conditions of two runs, and what that means for their comparison."""

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.experiments.comparison import Verdict, compare
from perftui.experiments.conditions import EDITED, Difference, Effect, conditions, differing
from perftui.facts.fact import Facts
from perftui.report.comparison import as_object, brief_object, brief_text, text
from perftui.run.manifest import Override
from tests.core.diagnosis.runs import make_run, script_run, telemetry_table
from tests.described import described

LATER = "changed later, perhaps between the runs"

KNOWN: dict[str, Any] = {
    "host": "node1",
    "cpu_name": "AMD EPYC 9534",
    "cpu_count": 8,
    "cpu_governor": "performance",
    "gpus": ("NVIDIA A100",),
    "gpu_driver": "550.54.15",
    "python_version": "3.12.1",
    "torch_version": "2.8.0",
    "perftui_version": "0.1.0",
    "git_commit": "1a2b3c4d5e6f7a8b",
    "git_dirty": False,
    "command": ("/usr/bin/python3", "train.py", "--lr", "0.1", "--epochs", "2"),
}


def run_with(ms: float = 10, **changes: Any) -> Facts:
    run = make_run(count=100, phases={"forward": ms})
    return Facts(replace(run, manifest=replace(run.manifest, **{**KNOWN, **changes})))


def differences(before: Facts, after: Facts) -> tuple[Difference, ...]:
    return differing(conditions(before), conditions(after))


def changed(**changes: Any) -> tuple[Difference, ...]:
    return differences(run_with(), run_with(**changes))


@pytest.mark.parametrize(
    ("changes", "text", "effect"),
    [
        ({"gpus": ("NVIDIA H200",)}, "GPU NVIDIA A100 -> NVIDIA H200", Effect.NOT_COMPARABLE),
        ({"gpus": ("NVIDIA A100",) * 2}, "GPU NVIDIA A100 -> 2x NVIDIA A100", Effect.PARTLY),
        ({"gpus": ()}, "GPU NVIDIA A100 -> none", Effect.PARTLY),
        ({"cpu_name": "Xeon"}, "CPU AMD EPYC 9534 -> Xeon", Effect.PARTLY),
        ({"cpu_count": 2}, "cores 8 -> 2", Effect.PARTLY),
        ({"host": "node2"}, "host node1 -> node2", Effect.PARTLY),
        ({"torch_version": "2.9.1"}, "torch 2.8.0 -> 2.9.1", Effect.PARTLY),
        ({"python_version": "3.13.0"}, "Python 3.12.1 -> 3.13.0", Effect.PARTLY),
        ({"perftui_version": "0.2.0"}, "perftui 0.1.0 -> 0.2.0", Effect.PARTLY),
        ({"gpu_driver": "580.65.06"}, "GPU driver 550.54.15 -> 580.65.06", Effect.PARTLY),
        ({"cpu_governor": "powersave"}, "CPU governor performance -> powersave", Effect.PARTLY),
        ({"git_commit": "9" * 40}, "commit 1a2b3c4d5e -> 9999999999", Effect.SOURCE),
        ({"git_dirty": True}, "commit 1a2b3c4d5e -> 1a2b3c4d5e with uncommitted changes",
         Effect.SOURCE),
        ({"command": ("/usr/bin/python3", "train.py", "--lr", "0.2", "--epochs", "2")},
         "command --lr 0.1 -> --lr 0.2", Effect.PARTLY),
        ({"command": (*KNOWN["command"], "--compile")}, "command nothing -> --compile",
         Effect.PARTLY),
    ],
)  # fmt: skip
def test_each_difference_is_named_with_its_effect(changes, text, effect) -> None:
    [found] = changed(**changes)
    assert (found.text, found.effect) == (text, effect)


def test_another_processor_or_gpu_forbids_the_comparison_and_other_versions_do_not() -> None:
    before, after = run_with(gpus=()), run_with(5, gpus=(), cpu_name="Xeon")
    found = compare(before, after)
    assert found.verdict is Verdict.INCONCLUSIVE
    assert found.reason == "CPU AMD EPYC 9534 -> Xeon: the step is that of another machine"
    assert compare(run_with(), run_with(5, gpus=("H200",))).verdict is Verdict.INCONCLUSIVE
    assert compare(run_with(), run_with(5, torch_version="2.9.1")).verdict is Verdict.FASTER


def test_what_is_unknown_of_one_run_is_no_difference() -> None:
    unknown = {
        "torch_version": None,
        "python_version": None,
        "git_commit": None,
        "cpu_count": 0,
        "cpu_name": "",
        "perftui_version": "",
        "gpu_driver": None,
        "cpu_governor": "",
    }
    assert changed(**unknown) == ()
    assert differences(run_with(), run_with()) == ()


def set_up(limit: float = 700, **settings: Any) -> Facts:
    """A run with a card of this power limit and these settings."""
    samples = telemetry_table(**{"gpu0.power_limit": limit, "gpu1.power_limit": limit})
    return Facts(make_run(count=100, telemetry=samples, events=(("settings", settings),)))


CUDA = {"build": {"cuda": "12.8"}}


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (set_up(), set_up(400), "GPU power limit 700 W -> 400 W"),
        (set_up(**CUDA), set_up(build={"cuda": "13.0"}), "CUDA 12.8 -> 13.0"),
        (set_up(environment={"OMP_NUM_THREADS": "1"}), set_up(environment={}),
         "OMP_NUM_THREADS 1 -> not set"),
    ],
)  # fmt: skip
def test_what_telemetry_and_the_training_tell_is_compared(before, after, text) -> None:
    [found] = differences(before, after)
    assert (found.text, found.effect) == (text, Effect.PARTLY)
    assert differences(before, set_up(float("nan"))) == ()


def test_a_variable_that_a_fix_sets_is_the_change() -> None:
    name = "PYTORCH_CUDA_ALLOC_CONF"
    with_fix = make_run(
        count=100,
        events=(("settings", {"environment": {name: "a"}}),),
        overrides=(Override("environment", {name: "a"}),),
    )
    assert differences(set_up(environment={}), Facts(with_fix)) == ()


def test_threads_and_precision_in_force_are_named() -> None:
    before = set_up(
        threads={"intra_op": 2}, parameters=[{"dtype": "float32", "device": "cuda", "elements": 9}]
    )
    after = set_up(
        threads={"intra_op": 4},
        autocast={"cuda": "bfloat16"},
        parameters=[{"dtype": "bfloat16", "device": "cuda", "elements": 9}],
    )
    assert compare(before, after).changes == (
        "threads 2 -> 4",
        "parameters float32 -> bfloat16",
        "autocast none seen -> cuda bfloat16",
    )


def test_other_batches_are_not_comparable_and_another_number_of_processes_is_named() -> None:
    one, other = (
        Facts(make_run(count=100, loaders=({"num_workers": 0, "batch_size": size},)))
        for size in (64, 32)
    )
    assert differences(one, other) == (Difference("batch size", "64", "32", Effect.NOT_COMPARABLE),)
    two = run_with()
    ranks = (two.run.ranks[0], replace(two.run.ranks[0], rank=1))
    [found] = differences(run_with(), Facts(replace(two.run, ranks=ranks)))
    assert found == Difference("training processes", "1", "2", Effect.NOT_COMPARABLE)


def test_one_commit_with_changes_on_both_sides_says_nothing_of_the_source() -> None:
    said = "both runs had uncommitted changes: whether the source is the same is unknown"
    dirty = run_with(git_dirty=True)
    assert said in compare(dirty, run_with(git_dirty=True)).notes
    assert said not in compare(dirty, run_with()).notes


@pytest.mark.parametrize(
    ("written", "said"), [(-1, None), (0, None), (1, EDITED), (2, EDITED), (3, LATER)]
)
def test_a_script_that_was_written_between_the_runs_is_named(
    tmp_path: Path, written: int, said: str | None
) -> None:
    made, start = script_run(tmp_path, "import torch\n"), 1_700_000_000_000_000_000
    os.utime(tmp_path / "train.py", ns=(start, start + written))
    manifest = replace(made.manifest, git_dirty=True, git_commit="1a2b3c4d5e6f7a8b")
    first, second = (
        Facts(replace(made, manifest=replace(manifest, started_ns=start + at))) for at in (0, 2)
    )
    rows = compare(first, second).differences
    assert [row.text for row in rows] == ([f"train.py {said}"] if said else [])
    assert compare(second, first).differences == rows
    unknown = "both runs had uncommitted changes"
    assert any(unknown in one for one in compare(first, second).notes) is (said is None)


def test_they_are_told_below_the_verdict_those_that_limit_most_first() -> None:
    other = {"gpus": ("H200",), "torch_version": "2.9\x1b[2J", "host": "b", "git_commit": "f" * 40}
    found = compare(run_with(), run_with(5, **other))
    for shown in (text(found), brief_text(found)):
        assert shown.splitlines()[1:4] == [
            "  not comparable: GPU NVIDIA A100 -> H200",
            "  only partly comparable: host node1 -> b, torch 2.8.0 -> 2.9\\x1b[2J",
            "  source: commit 1a2b3c4d5e -> ffffffffff",
        ]
    plain = described("compare", as_object(found))
    assert plain["comparable"] == "no"
    assert plain["differences"][0] == {
        "what": "GPU",
        "before": "NVIDIA A100",
        "after": "H200",
        "effect": "not comparable",
    }
    assert described("brief", brief_object(found))["differences"][1] == "host node1 -> b"
    assert as_object(compare(run_with(), run_with(host="b")))["comparable"] == "partly"
    assert as_object(compare(run_with(), run_with(git_dirty=True)))["comparable"] == "yes"


WORDS = st.lists(st.sampled_from(["python", "train.py", "--lr", "0.1", "-v", "a b"]), min_size=1)


@pytest.mark.slow
@given(WORDS, WORDS)
def test_the_words_that_differ_are_told_of_any_two_commands(before, after) -> None:
    found = differences(run_with(command=tuple(before)), run_with(command=tuple(after)))
    assert bool(found) == (before != after)
    if found:
        [one] = found
        assert one.before != one.after
        assert len(one.text) <= len("command nothing -> nothing") + sum(
            len(word) + 3 for word in (*before, *after)
        )


@pytest.mark.slow
@given(st.text(max_size=3000))
def test_the_brief_form_stays_brief(host) -> None:
    brief = brief_object(compare(run_with(), run_with(host=host, command=(host,))))
    assert len(json.dumps(brief, ensure_ascii=False).encode("utf-8", "replace")) <= 2100
