"""Rules about the cores and threads of a training that computes on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.facts.fact import Facts
from perftui.run.manifest import OTHER_PROGRAMS
from tests.core.diagnosis.runs import MS, Events, make_run, telemetry_table
from tests.core.diagnosis.stories import found, reasons, severity_of
from tests.traces.builder import TraceBuilder, ms

HERE = {
    "set_num_threads": ["/p/train.py", 4],
    "sched_setaffinity": ["/p/train.py", 2],
    "mkldnn.enabled": ["/p/train.py", 3],
}


def window(long: float = 8, name: str = "aten::mm", calls: int = 1) -> TraceBuilder:
    """Steps of 10 ms, so many of them in one operator."""

    def step(t: TraceBuilder) -> None:
        t.step().forward()
        for _ in range(calls):
            t.op(name, ms(long) // calls)
        t.close().pause(ms(10) - ms(long)).end()

    return TraceBuilder().repeat(4, step)


def settings(threads: int = 1, affinity: int = 8, **more: Any) -> Events:
    told = {"intra_op": threads}, {"affinity": affinity, "installed": 8}
    return (("settings", {"threads": told[0], "cores": told[1], "places": HERE, **more}),)


def facts_of(
    events: Events,
    story: TraceBuilder | None = None,
    busy: float = 1,
    own: float = 1,
    profile: dict[str, Any] | None = None,
    cores: int = 8,
    **sampled: float,
) -> Facts:
    """A run on 8 cores of which ``busy`` are, ``own`` of them by the training."""
    telemetry = telemetry_table(
        **{"cpu.cores": 8, "cpu.utilization": 100 * busy / 8, "processes.cpu": 100 * own},
        **{"pressure.cpu": 0, **sampled},
    )
    run = make_run(
        phases={"forward": 8, "other": 2},
        telemetry=telemetry,
        events=events,
        cpu_count=cores,
        profile=profile,
    )
    return Facts(run, (story or window()).analysis())


def judged(facts: Facts) -> Diagnosis:
    return diagnosis(facts)


def finding(facts: Facts, rule: str) -> Finding:
    one = found(judged(facts), rule)
    assert one is not None
    return one


def test_one_thread_beside_idle_cores_is_found_with_the_line_that_says_so() -> None:
    one = finding(facts_of(settings(threads=1)), "cpu-threads")
    assert one.sentence == (
        "Operators run on 1 thread while 7.0 of 8 cores idle: more threads could save up to "
        "5.6 ms of each 10 ms step (56 %)."
    )
    # 8 ms could be split among eight cores, at 80 % of what that saves.
    assert one.cost_ns == round(0.8 * 8 * MS * 7 / 8)
    assert one.severity is Severity.CRITICAL
    assert one.place.source == "/p/train.py:4"


def test_a_variable_of_the_environment_is_named_where_no_line_sets_it() -> None:
    events = settings(threads=1, places={}, environment={"OMP_NUM_THREADS": "1"})
    one = finding(facts_of(events), "cpu-threads")
    assert "1 thread (OMP_NUM_THREADS=1 in the environment) while" in one.sentence
    assert one.place is None


@pytest.mark.parametrize(
    ("facts", "is_found"),
    [
        (facts_of(settings(1), window(1.43)), True),
        (facts_of(settings(1), window(1.42)), False),
        # Short operators are not split, nor are those that draw random numbers.
        (facts_of(settings(1), window(8, calls=100)), False),
        (facts_of(settings(1), window(8, "aten::normal_")), False),
        # No core is idle.
        (facts_of(settings(1), busy=7.8), False),
        (facts_of(settings(8), busy=8, own=8), False),
        (facts_of(settings(8), busy=2, own=2), False),
    ],
)
def test_threads_are_too_few_only_where_more_would_help(facts: Facts, is_found: bool) -> None:
    assert (found(judged(facts), "cpu-threads") is not None) is is_found


def test_more_threads_than_cores_wait_for_each_other() -> None:
    one = finding(facts_of(settings(threads=32), busy=8, own=8), "cpu-threads")
    assert one.sentence == (
        "Operators run on 32 threads, on 8 cores: they wait for each other, for up to 6.0 ms of "
        "each 10 ms step (60 %)."
    )
    assert one.cost_ns == 6 * MS
    assert found(judged(facts_of(settings(threads=10), busy=8, own=8)), "cpu-threads") is None


def test_threads_are_not_judged_without_what_tells_of_them() -> None:
    assert "cpu-threads" not in reasons(judged(facts_of(())))
    short = facts_of(settings(1), TraceBuilder().repeat(4, lambda t: t.step().pause(ms(1)).end()))
    assert "operators" in reasons(judged(short))["cpu-threads"]


def test_a_mask_of_cores_is_found_where_it_binds() -> None:
    facts = facts_of(settings(threads=2, affinity=2), busy=2, own=2)
    one = finding(facts, "cpu-affinity")
    assert one.sentence == (
        "The training may run on 2 of 8 cores and uses 2.0 of them, while 6.0 others idle: with "
        "those it could save up to 4.8 ms of each 10 ms step (48 %)."
    )
    assert one.cost_ns == round(0.8 * 8 * MS * 6 / 8)
    assert one.place.source == "/p/train.py:2"
    assert found(judged(facts), "cpu-threads") is None


@pytest.mark.parametrize(
    "facts",
    [
        # It would save a tenth of the step from 1.7 ms on.
        facts_of(settings(threads=2, affinity=2), window(1.6), busy=2, own=2),
        # It does not use what it may.
        facts_of(settings(threads=2, affinity=2), busy=1, own=1),
        # The others are busy.
        facts_of(settings(threads=2, affinity=2), busy=8, own=2),
        # OpenMP keeps each thread to a core of its own.
        facts_of(settings(8, 1, environment={"OMP_PROC_BIND": "true"}), busy=2, own=2),
    ],
)
def test_a_mask_that_costs_nothing_is_not(facts: Facts) -> None:
    assert found(judged(facts), "cpu-affinity") is None


def test_a_quota_of_the_container_is_found_and_torch_does_not_know_it() -> None:
    one = finding(facts_of(settings(threads=2), busy=2, own=2, cores=2), "cpu-affinity")
    assert "may run on 2 of 8 cores" in one.sentence
    # torch does not know of the quota, and nobody but the user can tell it.
    facts = facts_of(settings(threads=8), busy=2, own=2, cores=2)
    assert finding(facts, "cpu-threads").cost_ns == 6 * MS
    assert found(judged(facts), "cpu-affinity") is None


def test_onednn_that_is_switched_off_costs_half_of_the_convolutions() -> None:
    off = {"mkldnn": {"available": True, "enabled": False}}
    facts = facts_of(settings(8, **off), window(6, "aten::convolution"), busy=8, own=8)
    one = finding(facts, "onednn-off")
    assert one.sentence == (
        "oneDNN is disabled (torch.backends.mkldnn.enabled), and convolutions and recurrent "
        "layers take 6.0 ms of each 10 ms step (60 %)."
    )
    assert one.cost_ns == 3 * MS
    assert one.place.source == "/p/train.py:3"
    least = facts_of(settings(8, **off), window(1, "aten::convolution"), busy=8, own=8)
    assert finding(least, "onednn-off").severity is Severity.WARNING
    little = facts_of(settings(8, **off), window(0.98, "aten::convolution"), busy=8, own=8)
    unknown = facts_of((), window(6, "aten::convolution"), busy=8, own=8)
    others = facts_of(settings(8, **off), window(6, "aten::mm"), busy=8, own=8)
    on = {"mkldnn": {"available": True, "enabled": True}}
    used = facts_of(settings(8, **on), window(6, "aten::convolution"), busy=8, own=8)
    for facts in (little, unknown, others, used):
        assert found(judged(facts), "onednn-off") is None


NAMED = {OTHER_PROGRAMS: {"box": {"seconds": 9, "cores": {"cc1": 5.0, "ls": 0.01}}}}


def neighbours(others: float = 5, delayed: float = 40, **known: Any) -> Facts:
    sampled = {"pressure.cpu": 50, "processes.delayed": delayed}
    return facts_of(settings(8), busy=3 + others, own=3, **sampled, **known)


def with_pids(pids: dict[str, list[int]], **cores: float) -> dict[str, Any]:
    return {OTHER_PROGRAMS: {"box": {"seconds": 9, "cores": cores, "pids": pids}}}


def test_other_programs_on_the_same_cores_are_named() -> None:
    cores = {"python other\x1b.py": 0.98, "cc1": 3.0, "ls": 0.01}
    pids = {"python other\x1b.py": [4123], "cc1": [7, 9], "ls": [1]}
    one = finding(neighbours(profile=with_pids(pids, **cores)), "busy-host")
    assert one.sentence == (
        "Other programs take 5.0 of 8 cores (pid 4123 python other\\x1b.py, pid 7 cc1): the "
        "training waits for a core 4.0 ms of each 10 ms step (40 %)."
    )
    named = {fact.label: (fact.value, fact.unit) for fact in one.facts if "pid" in fact.label}
    assert named == {
        "pid 4123 python other\\x1b.py, of a core": (98.0, "%"),
        "pids 7, 9 cc1, of a core": (300.0, "%"),
    }


def test_perftui_is_no_other_program() -> None:
    measured = neighbours(**{"processes.perftui_cpu": 200}, profile=NAMED)
    assert finding(measured, "busy-host").sentence.startswith("Other programs take 3.0 of 8 cores")
    alone = neighbours(1.7, **{"processes.perftui_cpu": 100})
    assert found(judged(alone), "busy-host") is None


def test_older_recordings_name_other_programs_without_their_numbers() -> None:
    one = finding(neighbours(profile=NAMED), "busy-host")
    assert one.sentence == (
        "Other programs take 5.0 of 8 cores (cc1): the training waits for a core 4.0 ms of each "
        "10 ms step (40 %)."
    )
    assert (one.cost_ns, one.severity) == (4 * MS, Severity.WARNING)
    assert "container" in finding(neighbours(), "busy-host").would_raise_confidence


def test_a_host_that_is_a_little_busy_is_no_finding_and_is_judged_by_waits() -> None:
    assert finding(neighbours(delayed=29), "busy-host").severity is Severity.INFO
    assert found(judged(neighbours(delayed=9)), "busy-host") is None
    assert found(judged(neighbours(others=1.5)), "busy-host") is None
    facts = facts_of(settings(8), busy=8, own=3, **{"pressure.cpu": 50})
    assert "was not sampled" in reasons(judged(facts))["busy-host"]


def test_threads_of_its_own_beyond_the_cores_are_not_blamed_on_others() -> None:
    sampled = {"pressure.cpu": 50, "processes.delayed": 80}
    facts = facts_of(settings(32), busy=8, own=4, **sampled)
    # Others want 4 cores more than there are, and so many as 24 threads of its own.
    assert finding(facts, "busy-host").cost_ns == pytest.approx(8 * MS * 4 / 28, abs=1)


def beside(rest: float = 2, **sampled: float) -> Facts:
    """A training of eight threads with processes that it has started itself."""
    used = {"processes.ranks_cpu": 600, "processes.rest_cpu": 100 * rest}
    return facts_of(settings(8), busy=8, own=8, **used, **sampled)


def test_processes_that_the_script_started_are_reported_where_they_take_cores() -> None:
    one = finding(beside(**{"processes.delayed": 40}), "own-process")
    assert one.sentence == (
        "Other processes that the script started take 2.0 of 8 cores: the training waits for a "
        "core 4.0 ms of each 10 ms step (40 %)."
    )
    assert (one.cost_ns, one.severity) == (4 * MS, Severity.CRITICAL)
    assert finding(beside(**{"processes.delayed": 29}), "own-process").severity is Severity.WARNING


def test_processes_that_take_little_or_hold_up_nothing_are_no_finding() -> None:
    for facts in (
        beside(1.5, **{"processes.delayed": 40}),
        beside(**{"processes.delayed": 9}),
        facts_of(settings(8), busy=8, own=8, **{"processes.delayed": 40}),
    ):
        assert found(judged(facts), "own-process") is None
    assert "was not sampled" in reasons(judged(beside()))["own-process"]


@pytest.mark.parametrize(
    ("facts", "severity"),
    [
        (facts_of(settings(8)), Severity.CRITICAL),
        (neighbours(delayed=49), Severity.WARNING),
        (neighbours(delayed=51), Severity.INFO),
        (neighbours(delayed=76), None),
    ],
)
def test_waits_for_a_core_are_no_python_of_the_scripts(facts: Facts, severity: Severity) -> None:
    """A fifth of the step is outside of the phases; others take the core for part of that."""
    one = found(judged(facts), "python-bound")
    assert severity_of(one) is severity
    assert found(judged(facts), "largest-part") is None
