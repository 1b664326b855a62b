"""Rules about the cores and threads of a training that computes on the CPU."""

from dataclasses import replace
from typing import Any

from perftui.diagnosis.diagnose import ranked
from perftui.diagnosis.model import Confidence, Severity
from perftui.diagnosis.rule import certainty
from perftui.diagnosis.symptoms.script.python_bound import python_in_model
from perftui.facts.fact import Facts
from perftui.facts.step.judged_step import judged_step
from perftui.run.manifest import OTHER_PROGRAMS
from tests.core.diagnosis.runs import MS, Events, make_run, telemetry_table
from tests.core.diagnosis.stories import diagnosed, finding_of, found
from tests.traces.builder import TraceBuilder, ms

HERE = {
    "set_num_threads": ["/p/train.py", 4],
    "sched_setaffinity": ["/p/train.py", 2],
    "mkldnn.enabled": ["/p/train.py", 3],
}


OFF = {"mkldnn": {"available": True, "enabled": False}}


def convolving(long: float, **noted: Any) -> Facts:
    """Steps of 10 ms, so many of them in convolutions; oneDNN is off unless a note says more."""
    return facts_of(settings(8, **(noted or OFF)), window(long, "aten::convolution"), busy=8, own=8)


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


def with_workers(percent: float) -> dict[str, float]:
    """Samples of workers that keep so many percent of a core busy."""
    return {"processes.ranks_cpu": 100.0, "processes.workers_cpu": percent}


def test_a_variable_of_the_environment_is_named_where_no_line_sets_it() -> None:
    events = settings(threads=1, places={}, environment={"OMP_NUM_THREADS": "1"})
    one = finding_of(facts_of(events), "cpu-threads")
    assert "1 thread (OMP_NUM_THREADS=1 in the environment) while" in one.sentence
    assert one.place is None
    # Whoever starts the script so has chosen it: beside the verdict.
    assert (one.severity, one.cost_ns) == (Severity.INFO, 0)
    assert finding_of(facts_of(settings(threads=1)), "cpu-threads").cost_ns


def test_a_quota_of_the_container_is_found_and_torch_does_not_know_it() -> None:
    one = finding_of(facts_of(settings(threads=2), busy=2, own=2, cores=2), "cpu-affinity")
    assert "may run on 2 of 8 cores" in one.sentence
    # torch does not know of the quota, and nobody but the user can tell it.
    facts = facts_of(settings(threads=8), busy=2, own=2, cores=2)
    assert finding_of(facts, "cpu-threads").cost_ns == 6 * MS
    assert found(facts, "cpu-affinity") is None


NAMED = {OTHER_PROGRAMS: {"box": {"seconds": 9, "cores": {"cc1": 5.0, "ls": 0.01}}}}


def neighbours(others: float = 5, delayed: float = 40, **known: Any) -> Facts:
    sampled = {"pressure.cpu": 50, "processes.delayed": delayed}
    return facts_of(settings(8), busy=3 + others, own=3, **sampled, **known)


def with_pids(pids: dict[str, list[int]], **cores: float) -> dict[str, Any]:
    return {OTHER_PROGRAMS: {"box": {"seconds": 9, "cores": cores, "pids": pids}}}


def test_other_programs_on_the_same_cores_are_named() -> None:
    cores = {"python other\x1b.py": 0.98, "cc1": 3.0, "ls": 0.01}
    pids = {"python other\x1b.py": [4123], "cc1": [7, 9], "ls": [1]}
    one = finding_of(neighbours(profile=with_pids(pids, **cores)), "busy-host")
    assert one.sentence == (
        "Other programs take 5.0 of 8 cores (pid 4123 python other\\x1b.py, pid 7 cc1): the "
        "training waits for a core 4.0 ms of each 10 ms step (40 %), so all times are up to 67 % "
        "too long."
    )
    named = {fact.label: (fact.value, fact.unit) for fact in one.facts if "pid" in fact.label}
    assert named == {
        "pid 4123 python other\\x1b.py, of a core": (98.0, "%"),
        "pids 7, 9 cc1, of a core": (300.0, "%"),
    }


def test_other_programs_are_neither_perftui_nor_always_named() -> None:
    measured = neighbours(**{"processes.perftui_cpu": 200}, profile=NAMED)
    assert finding_of(measured, "busy-host").sentence.startswith(
        "Other programs take 3.0 of 8 cores"
    )
    assert "container" in finding_of(neighbours(), "busy-host").would_raise_confidence


def in_model(delayed: float, steps: int = 4) -> Facts:
    """In the window 2 of 8 ms of the forward pass are between operators."""

    def step(t: TraceBuilder) -> None:
        t.step().forward().op("aten::mm", ms(6)).pause(ms(2)).close().pause(ms(2)).end()

    return Facts(neighbours(delayed=delayed).run, TraceBuilder().repeat(steps, step).analysis())


def test_waits_for_a_core_are_no_python_and_a_single_step_does_not_tell_them_apart() -> None:
    lost = [python_in_model(in_model(delayed)) for delayed in (0, 20, 40)]
    assert [one.cost_ns / MS for one in lost if one] == [2.0, 1.6, 1.2]
    assert [one.doubt for one in lost if one] == ["", "", ""]
    said = [one.doubt for share in (9, 10) if (one := python_in_model(in_model(share, steps=1)))]
    assert said == [
        "",
        "other programs keep the training from a core 10 % of the time, and a single profiled step "
        "does not tell that from Python",
    ]


def test_a_busy_host_is_a_caution_beside_the_cause_of_the_training() -> None:
    cause, *_, caution = diagnosed(neighbours()).findings
    assert (caution.rule, caution.cost_ns) == ("busy-host", 0)
    assert cause.rule != "busy-host"
    sure = certainty(facts := neighbours(), judged_step(facts).of, ())
    assert (sure.confidence, sure.missing) == (Confidence.MEDIUM, "an idle machine")
    assert ("times too long, at most", 66.7) in [(one.label, one.value) for one in cause.facts]
    assert caution.advice.endswith("start with OMP_NUM_THREADS=3")
    hint = replace(cause, rule="subnormal-numbers", severity=Severity.INFO, cost_ns=0)
    assert ranked([hint, caution]) == (caution, hint)
    # No window was affordable yet: phases say what they can.
    unseen = replace(neighbours().run, ranks=make_run(events=settings(8)).ranks)
    late = diagnosed(Facts(unseen)).top
    assert late.rule == "compute-bound"
    assert "No window shows their operators yet." in late.sentence


def test_threads_of_its_own_beyond_the_cores_are_not_blamed_on_others() -> None:
    sampled = {"pressure.cpu": 50, "processes.delayed": 80}
    facts = facts_of(settings(32), busy=8, own=4, **sampled)
    # Others want 4 cores more than there are, and so many as 24 threads of its own.
    assert "1.1 ms of each 10 ms step" in finding_of(facts, "busy-host").sentence


def beside(rest: float = 2, **sampled: float) -> Facts:
    """A training of eight threads with processes that it has started itself."""
    used = {"processes.ranks_cpu": 600, "processes.rest_cpu": 100 * rest, **sampled}
    return facts_of(settings(8), busy=8, own=8, **used)


def fed(workers: float) -> Facts:
    """A training of eight threads whose loader workers keep up, and take as many cores."""
    taken = {"processes.workers_cpu": 100 * workers, "processes.delayed": 40}
    return beside(0, **taken)
