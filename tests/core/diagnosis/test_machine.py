"""The machine: its cards and who uses them, its start, and what of it is not used."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.diagnose import diagnosis
from perftui.diagnosis.model import Diagnosis, Finding, Severity
from perftui.diagnosis.symptoms.script.python_bound import python_in_model, without_profiler
from perftui.facts.cpu.machine import cards, machine_use
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import not_sampled, own_gpus
from perftui.facts.source.stack_profile import waiting
from perftui.run.columns import LOCK_COLUMNS, STACK_COLUMNS, STACK_TEXT
from perftui.run.manifest import GPU_DEVICES, NOT_SAMPLED
from perftui.run.table import GrowingTable, Table
from tests.core.diagnosis.runs import (
    MS,
    ON_GPU,
    Events,
    Seen,
    event_table,
    make_run,
    run_of,
    step_table,
    telemetry_table,
)
from tests.core.diagnosis.stories import busy, found, reasons, severity_of, training
from tests.traces.builder import TraceBuilder, ms, us

GIB = 2.0**30
HOT = {"throttle_reasons": 0x20, "clock_sm": 1000.0, "clock_sm_max": 2000.0}
LINK = {"pcie_generation": 4.0, "pcie_generation_max": 4.0, "pcie_width_max": 16.0}


def judged_card(
    rule: str, story: TraceBuilder | None, profile: dict[str, Any] | None = None, **card: float
) -> Finding | None:
    """What ``rule`` says of a training on a card of these samples, 95 % of the time busy.

    Steps of a run of 40 of 1 ms begin at 0, samples come each ms.
    """
    values = {"memory_used": 20 * GIB, "memory_total": 100 * GIB, "utilization": 95.0, **card}
    telemetry = telemetry_table(20, **{f"gpu0.{name}": value for name, value in values.items()})
    run = make_run(phases={"forward": 1}, telemetry=telemetry, profile=profile, **ON_GPU)
    return found(diagnosis(Facts(run, story.analysis() if story else None)), rule)


def said(rule: str, profile: dict[str, Any] | None = None, **card: float) -> Finding | None:
    """Of a training that computes half of the time."""
    return judged_card(rule, busy(0.5), profile, **card)


def hot(reasons: float, clock: float) -> Finding | None:
    return said("thermal-or-power-cap", **HOT | {"throttle_reasons": reasons, "clock_sm": clock})


def test_heat_that_holds_down_the_clock_costs_computing() -> None:
    finding = hot(0x20, 1500.0)
    assert finding.severity is Severity.WARNING
    assert finding.sentence == (
        "Heat limits the clock of GPU 0 in 100 % of the samples, to 75 % of its maximum on average."
    )
    # A quarter of the half of each step in which the GPU computes.
    assert finding.cost_ns == 125_000
    assert hot(0x20, 1799.0) is not None
    assert hot(0x20, 1800.0) is None


def test_heat_costs_only_what_a_window_shows_the_gpu_to_compute() -> None:
    finding = judged_card("thermal-or-power-cap", None, **HOT)
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)


@pytest.mark.parametrize("missing", HOT)
def test_without_the_clock_and_what_limits_it_nothing_is_said(missing: str) -> None:
    assert said("thermal-or-power-cap", **HOT | {missing: float("nan")}) is None


def test_the_power_limit_is_only_mentioned() -> None:
    finding = hot(0x04, 1500.0)
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)
    assert hot(0x01, 1500.0) is None


def test_memory_of_other_processes_is_mentioned_and_their_computing_a_warning() -> None:
    finding = said("shared-gpu", process_memory=5 * GIB, utilization=50.0)
    assert finding.severity is Severity.INFO
    assert finding.sentence == ("Other processes hold 15.0 GiB of GPU 0 (14 % of its memory).")
    finding = said("shared-gpu", process_memory=5 * GIB, utilization=95.0)
    assert finding.severity is Severity.WARNING
    assert "busy 45 % of the time besides this training" in finding.sentence
    assert said("shared-gpu", process_memory=15 * GIB) is None
    assert said("shared-gpu") is None


@pytest.mark.parametrize(
    ("others", "utilization", "severity"),
    [(10.9, 95, None), (11, 70, Severity.INFO), (11, 71, Severity.WARNING)],
)
def test_others_count_from_a_tenth_of_the_memory_and_a_fifth_of_the_time_on(
    others: float, utilization: float, severity: Severity | None
) -> None:
    """The driver itself may hold a GiB."""
    card = {"process_memory": (20 - others) * GIB, "utilization": utilization}
    assert severity_of(said("shared-gpu", **card)) is severity


SERVING = {"pid": 4123, "program": "python serve.py", "user": "ada", "memory": 12 * 2**30}
GONE = {"pid": 4200, "program": None, "user": None, "memory": 2 * 2**30}


def test_other_processes_are_named_the_largest_in_the_sentence() -> None:
    profile = {"gpu_processes": {"box": {"gpu0": [SERVING, GONE], "gpu1": [GONE]}}}
    finding = said("shared-gpu", profile, process_memory=5 * GIB, utilization=50.0)
    assert finding.sentence == (
        "Other processes hold 15.0 GiB of GPU 0 (14 % of its memory); "
        "the largest is pid 4123 python serve.py (ada)."
    )
    named = [(one.label, one.value) for one in finding.facts if one.unit == "B"]
    assert named == [("pid 4123 python serve.py (ada)", 12 * 2**30), ("pid 4200", 2 * 2**30)]


@pytest.mark.parametrize(
    "noted",
    [{"box": {"gpu0": "none"}}, {"box": {"gpu0": [{"program": "x"}, 3, {"pid": "?"}]}}, "none", {}],
)
def test_what_another_version_notes_of_processes_names_nobody(noted: Any) -> None:
    finding = said("shared-gpu", {"gpu_processes": noted}, process_memory=5 * GIB, utilization=50)
    assert finding.sentence.endswith("(14 % of its memory).")


def test_waiting_for_other_ranks_is_no_computing_of_others() -> None:
    """The kernel of a collective keeps the card busy as well."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(500), call=us(2), starts=begin)
        t.all_reduce(us(450), starts=begin + us(500)).at(begin + us(1000)).end()

    finding = judged_card("shared-gpu", training().repeat(3, step), process_memory=5 * GIB)
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("width", "generation", "speed"),
    [(16.0, 4.0, None), (8.0, 4.0, "50 %"), (16.0, 3.0, "50 %"), (8.0, 3.0, "25 %")],
)
def test_a_slow_link_is_mentioned(width: float, generation: float, speed: str | None) -> None:
    finding = said("pcie-degraded", **LINK | {"pcie_width": width, "pcie_generation": generation})
    assert (finding is None) == (speed is None)
    if finding is not None:
        assert f"runs at {speed} of what the card supports" in finding.sentence
        assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)


def test_a_slow_link_costs_its_part_of_exposed_copies() -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().copy("HtoD", us(200), 1 << 20, call=us(2), starts=begin)
        t.launch("gemm", us(800), call=us(2), starts=begin + us(200)).at(begin + us(1000)).end()

    story = training().repeat(20, step)
    finding = judged_card("pcie-degraded", story, **LINK, pcie_width=8.0)
    assert (finding.severity, finding.cost_ns) == (Severity.WARNING, us(100))
    assert finding.parts == ("exposed copies",)


@pytest.mark.parametrize("missing", LINK)
def test_where_what_the_link_can_do_is_not_known_nothing_is_said(missing: str) -> None:
    assert said("pcie-degraded", **LINK | {missing: float("nan"), "pcie_width": 8.0}) is None


UUIDS = ["aa-00", "aa-11", "aa-22", "aa-33"]
DEVICES = [
    {"prefix": f"gpu{n}", "name": "H100", "uuid": f"GPU-{uuid}"} for n, uuid in enumerate(UUIDS)
]
PROFILE: dict[str, Any] = {
    GPU_DEVICES: {"box": DEVICES, "other": []},
    NOT_SAMPLED: {"box": {"gpu0.fan": "NVML says: Not Supported"}},
}


def note(current: int = 0, uuids: Any = UUIDS, held: Any = (), **more: Any) -> dict[str, Any]:
    """What the agent notes of the GPUs; ``held`` names the devices of its parameters."""
    devices = {"visible": len(uuids or ()), "current": current, "uuids": uuids}
    counts = {"tensors": 1, "trained": 1, "elements": 1, "largest": 1, "unused": 0}
    held_rows = [{"dtype": "float32", "device": d, **counts, "unused_elements": 0} for d in held]
    return {"devices": devices, "parameters": held_rows, **more}


def noted_facts(told: dict[str, Any] | None, profile: Any = PROFILE, **more: Any) -> Facts:
    events = (("settings", told),) if told is not None else ()
    return Facts(make_run(events=events, profile=profile, **more))


def own(told: dict[str, Any] | None, profile: Any = PROFILE) -> tuple[str, ...] | None:
    return own_gpus.or_none(noted_facts(told, profile))


def test_the_gpu_is_that_of_the_uuid_or_of_the_parameters() -> None:
    assert own(note(uuids=["aa-22", "aa-00"])) == ("gpu2",)
    assert own(note(uuids=["aa-22", "aa-00"], current=1)) == ("gpu0",)
    assert own(note(held=["cuda:3"])) == ("gpu3",)
    assert own(note(held=["cuda:3", "cuda:1", "cpu"])) == ("gpu1", "gpu3")
    assert own(note(held=["cpu"], current=2)) == ("gpu2",)
    assert own(note(held=["cuda"], current=2)) == ("gpu2",)
    wrapper = {"name": "DataParallel", "count": 1, "arguments": {"device_ids": "[0, 2]"}}
    assert own(note(held=["cuda:0"], wrappers=[wrapper])) == ("gpu0", "gpu2")


@pytest.mark.parametrize(
    "told",
    [
        None,
        {},
        {"devices": None},
        note(uuids=None),
        note(uuids=["bb-00"]),
        note(current=9),
        note(held=["cuda:9"]),
    ],
)
def test_where_nothing_tells_it_is_not_known(told: dict[str, Any] | None) -> None:
    assert own(told) is None


@pytest.mark.parametrize("profile", [{}, {GPU_DEVICES: []}, {GPU_DEVICES: {"box": [3]}}, None])
def test_a_run_that_does_not_name_its_gpus_tells_nothing(profile: Any) -> None:
    assert own(note(), profile) is None
    assert not_sampled(noted_facts(note(), profile)) == {}


def test_why_a_metric_is_not_sampled_is_known_by_host() -> None:
    assert not_sampled(noted_facts(note())) == {"gpu0.fan": "NVML says: Not Supported"}


def machine(**busy: float) -> Any:
    values: dict[str, float] = {}
    for card, share in busy.items():
        values |= {f"{card}.utilization": share, f"{card}.memory_used": share}
        values |= {f"{card}.memory_total": 100.0, f"{card}.process_memory": float("nan")}
    return telemetry_table(**values)


def test_the_machines_figures_are_those_of_the_runs_own_card() -> None:
    """In a container no card lists a process that the run knows."""
    table = machine(gpu0=90.0, gpu1=20.0)
    unknown = machine_use(noted_facts(None, telemetry=table, **ON_GPU))
    assert (unknown.gpu_busy, unknown.memory) == (None, ())
    told = machine_use(noted_facts(note(uuids=["aa-11"]), telemetry=table, **ON_GPU))
    assert told.gpu_busy == 0.2
    assert [memory.name for memory in told.memory] == ["GPU 1"]


def test_of_several_ranks_on_a_host_all_must_tell() -> None:
    table = machine(gpu0=90.0, gpu1=20.0, gpu2=99.0)
    run = make_run(
        events=(("settings", note(uuids=["aa-11"])),), profile=PROFILE, telemetry=table, **ON_GPU
    )
    second = replace(run.ranks[0], rank=1, events=event_table(events=(("settings", note()),)))
    both = machine_use(Facts(replace(run, ranks=(*run.ranks, second))))
    assert [memory.name for memory in both.memory] == ["GPU 0", "GPU 1"]
    silent = replace(second, events=event_table())
    unknown = machine_use(Facts(replace(run, ranks=(*run.ranks, silent))))
    assert unknown.memory == ()


def divided(**device: float) -> Any:
    """Telemetry of a hot card with two MIG devices, of which ``device`` is the second."""
    first = {"memory_used": 9.0, "memory_total": 10.0, "utilization": 99.0}
    values = {"gpu0.temperature": 90.0, "gpu0.throttle_reasons": 0x20, "gpu0.clock_sm": 1000.0}
    values |= {f"gpu0.mig0.{name}": value for name, value in first.items()}
    values |= {f"gpu0.mig1.{name}": value for name, value in device.items()}
    return telemetry_table(20, **values)


PARTS = [{"prefix": "gpu0", "name": "", "uuid": "GPU-0"}] + [
    {"prefix": f"gpu0.mig{n}", "name": "", "uuid": f"MIG-{n}"} for n in range(2)
]


def test_figures_are_those_of_the_mig_device_that_the_run_uses() -> None:
    table = divided(memory_used=3.0, memory_total=10.0, utilization=40.0)
    told = noted_facts(note(uuids=["1"]), {GPU_DEVICES: {"box": PARTS}}, telemetry=table, **ON_GPU)
    use = machine_use(told)
    assert (use.cards, use.gpu_busy) == (1, 0.4)
    assert [(one.name, one.share) for one in use.memory] == [("GPU0 MIG1", 0.3)]
    (card,) = cards(told)
    # Heat and clocks are the card's.
    assert (card.busy, card.memory_total, card.temperature, card.thermal) == (0.4, 10.0, 90.0, 1.0)


def test_mig_devices_are_not_taken_for_each_other() -> None:
    table = divided(memory_used=3.0, memory_total=10.0, utilization=40.0)
    use = machine_use(noted_facts(None, telemetry=table, **ON_GPU))
    assert (use.gpu_busy, use.memory) == (None, ())
    held = divided(memory_used=3.0, memory_total=10.0, utilization=40.0, process_memory=2.0)
    use = machine_use(noted_facts(None, telemetry=held, **ON_GPU))
    assert [one.name for one in use.memory] == ["GPU0 MIG1"]


CPU_ONLY = {"torch": "2.13.0+cpu"}
ON_CPU = [{"dtype": "float32", "device": "cpu", "tensors": 4}]
A_GPU = {"devices": {"visible": 4, "architecture": "sm_90"}}


def settings(**told: Any) -> Events:
    return (("settings", told),)


def window(computing: float = 6) -> TraceBuilder:
    """Steps of 10 ms, 6 of them in an operator."""

    def step(t: TraceBuilder) -> None:
        t.step().forward().op("aten::mm", ms(computing)).pause(ms(8 - computing)).close()
        t.pause(ms(2)).end()

    return TraceBuilder().repeat(4, step)


def all_judged(events: Events = (), **run: Any) -> Diagnosis:
    return diagnosis(facts_of(events, **run))


def facts_of(
    events: Events = (), *, stacks: dict[str, Table] | None = None, computing: float = 6, **run: Any
) -> Facts:
    run = {"phases": {"forward": 8, "other": 2}, **run}
    recorded = make_run(events=events, **run)
    rank = replace(recorded.ranks[0], **(stacks or {}))
    return Facts(replace(recorded, ranks=(rank,)), window(computing).analysis())


def judged(rule: str, events: Events = (), **run: Any) -> Finding | None:
    return found(all_judged(events, **run), rule)


def held(
    share: float, idle: float = 0.5, known: bool = True, file: str = "/p/data.py"
) -> dict[str, Table]:
    """A turn of 1 s within the run's 400 ms and behind it, in which a thread held the lock."""
    table = GrowingTable(LOCK_COLUMNS, floats=False, text=STACK_TEXT)
    second = 1_000 * MS
    still = round(idle * second) if known else -1
    place = [file, 7, "poll", "queue.py:98 qsize", 100 * MS, "", ""]
    table.extend([[100 * MS, round(share * second), 9, *place, second, still]])
    return {"lock_stacks": table.freeze()}


def test_a_thread_that_holds_pythons_lock_is_found_with_its_line() -> None:
    one = judged("gil-contention", stacks=held(0.9, idle=0.3))
    assert one.sentence == (
        "Another thread at data.py:7 in poll holds the GIL 90 % of the time: the training thread "
        "waits for it for up to 3.0 ms of each 10 ms step (30 %)."
    )
    assert (one.cost_ns, one.severity) == (3 * MS, Severity.CRITICAL)
    assert one.place.source == "/p/data.py:7"
    assert set(one.parts) == {"python in forward", "other"}


def test_what_the_lock_costs_and_how_little_of_it_counts() -> None:
    one = judged("gil-contention", stacks=held(0.9, idle=0.9))
    assert one.cost_ns == 4 * MS
    assert judged("gil-contention", stacks=held(0.9, idle=0.05)) is not None
    assert judged("gil-contention", stacks=held(0.9, idle=0.049)) is None
    assert judged("gil-contention", stacks=held(0.04)) is None
    assert judged("gil-contention") is None
    assert judged("gil-contention", stacks=held(0.5)) is not None
    assert judged("gil-contention", stacks=held(0.499)) is None


def test_waiting_for_the_lock_is_no_python_of_the_model() -> None:
    def lost(**run: Any) -> int | None:
        one = python_in_model(facts_of(**run))
        return one.cost_ns if one else None

    assert lost() == 2 * MS
    assert lost(stacks=held(0.9, idle=0.05)) == pytest.approx(1.5 * MS)
    assert lost(stacks=held(0.9, idle=0.2)) is None


@pytest.mark.parametrize(
    ("profiled", "calls", "left"),
    [
        (10, 1000, 4.0),
        # Of 4.8 ms of the profiled step half of what it is longer by is the profiler's.
        (12, 1000, 3.8),
        (14, 2000, 3.6),
        (9, 1000, 4.0),
        # Few operators cannot have cost the profiler as much.
        (12, 10, 4.0),
    ],
)
def test_what_the_profiler_takes_between_operators_is_no_python_of_the_model(
    profiled: int, calls: int, left: float
) -> None:
    assert without_profiler(4 * MS, profiled * MS, 10 * MS, calls) == left * MS


def test_python_of_a_window_that_something_held_up_is_not_judged() -> None:
    """Its steps take 10 ms: a quarter more than 8, and the profiler next to nothing."""
    usual = all_judged(phases={"forward": 6.4, "other": 1.6})
    assert any(one.sentence.startswith("Python in the model") for one in usual.findings)
    held_up = all_judged(phases={"forward": 6.3, "other": 1.6})
    assert not any(one.sentence.startswith("Python in the model") for one in held_up.findings)
    assert reasons(held_up)["python-bound"] == (
        "profiled steps took 10 ms, where the mean step takes 7.9 ms: something else held them up"
    )


def test_a_thread_that_waits_for_its_loaders_workers_does_not_wait_for_the_lock() -> None:
    waits = {"phases": {"input_wait": 4, "forward": 4, "other": 2}, "stacks": held(0.9, idle=0.44)}
    assert judged("gil-contention", loaders=({"num_workers": 2},), **waits) is None
    assert judged("gil-contention", loaders=({"num_workers": 0},), **waits) is not None


def test_what_the_script_waits_for_itself_is_no_wait_for_the_lock() -> None:
    """A fifth of its samples are in a call that waits for the network."""
    inner = {True: "python3/socket.py:9 recv", False: "p/train.py:1 main"}
    seen = (Seen(at * 100, 100, 5, inner=inner[at % 5 == 0]) for at in range(100))
    assert waiting(Facts(run_of(step_table(100, {"other": 100}), *seen))) == pytest.approx(0.2)

    def lost(known: bool) -> int | None:
        facts = facts_of(stacks=held(0.5, idle=0.5, known=known))
        facts.worked_out[waiting] = 0.2
        one = found(diagnosis(facts), "gil-contention")
        return one.cost_ns if one else None

    assert lost(known=True) == pytest.approx(3 * MS)
    assert lost(known=False) == pytest.approx(4 * MS)


def test_without_the_time_the_main_thread_ran_it_is_less_sure() -> None:
    one = judged("gil-contention", stacks=held(0.6, known=False))
    assert one.would_raise_confidence == "how long the main thread ran"
    nowhere = all_judged(stacks=held(0.6, known=False, file=""))
    assert found(nowhere, "gil-contention") is None
    assert "none at a line of the script" in reasons(nowhere)["gil-contention"]


def test_a_build_for_the_cpu_beside_a_gpu_is_found() -> None:
    events = settings(build=CPU_ONLY, parameters=ON_CPU)
    one = judged("wrong-build", events, gpus=("H100",))
    assert one.sentence == (
        "The model computes on the CPU, 6.0 ms of each 10 ms step (60 %), while the machine has "
        "H100: torch 2.13.0+cpu is built without CUDA."
    )
    assert one.cost_ns == round(5.4 * MS)
    assert one.severity is Severity.CRITICAL
    assert judged("wrong-build", events, gpus=("H100",), computing=1.2) is not None
    assert judged("wrong-build", events, gpus=("H100",), computing=1.1) is None


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"build": {"cuda": "13.0"}}, "the parameters are on the CPU."),
        ({"environment": {"CUDA_VISIBLE_DEVICES": ""}}, "CUDA_VISIBLE_DEVICES='' hides it."),
    ],
)
def test_a_model_that_was_left_on_the_cpu_is_found(told: dict[str, Any], why: str) -> None:
    one = judged("wrong-build", settings(parameters=ON_CPU, **told), gpus=("H100",))
    assert one.sentence.endswith(why)


def test_a_machine_without_a_gpu_has_no_wrong_build() -> None:
    assert judged("wrong-build", settings(build=CPU_ONLY, parameters=ON_CPU)) is None
    assert judged("wrong-build", gpus=("H100",)) is None
    assert judged("wrong-build", settings(build=CPU_ONLY), gpus=("H100",)) is None


@pytest.mark.parametrize(
    ("architectures", "is_found"),
    [
        (["sm_75", "sm_80"], True),
        (["sm_80", "sm_90"], False),
        (["sm_90a", "compute_90"], False),
        # Only code for a later architecture of the same generation.
        (["sm_95"], True),
    ],
)
def test_a_build_without_code_for_the_gpu_is_found(architectures: Any, is_found: bool) -> None:
    build = {"cuda": "13.0", "architectures": architectures}
    one = judged("wrong-build", settings(build=build, **A_GPU), **ON_GPU)
    assert (one is not None) is is_found


def busy_cards(*busy: float) -> Table:
    return telemetry_table(**{f"gpu{at}.utilization": value for at, value in enumerate(busy)})


def test_gpus_that_nothing_runs_on_are_reported() -> None:
    one = judged("gpus-unused", settings(**A_GPU), telemetry=busy_cards(90, 0, 0, 30), **ON_GPU)
    assert one.sentence == (
        "The training uses 1 of the 4 GPUs that it sees, and nothing else runs on 2 others."
    )
    assert one.severity is Severity.INFO
    assert (
        judged("gpus-unused", settings(**A_GPU), telemetry=busy_cards(90, 9, 9, 9), **ON_GPU)
        is None
    )
    spread = [{"dtype": "float32", "device": f"cuda:{at}", "tensors": 4} for at in range(4)]
    events = settings(**A_GPU, parameters=spread)
    assert judged("gpus-unused", events, telemetry=busy_cards(90, 0, 0, 0), **ON_GPU) is None


@pytest.mark.parametrize(
    ("events", "telemetry"),
    [
        # Which GPUs the process sees is not known; nor is what runs on them.
        ((), busy_cards(90, 0, 0, 0)),
        (settings(**A_GPU), None),
        # Another process may be about to use one that idles now and then.
        (settings(**A_GPU), busy_cards(90, 1, 1, 1)),
    ],
)
def test_gpus_are_not_called_unused_without_evidence(events: Events, telemetry: Table) -> None:
    assert judged("gpus-unused", events, telemetry=telemetry, **ON_GPU) is None


def test_a_late_first_step_is_reported_with_the_line_before_it() -> None:
    stacks = GrowingTable(STACK_COLUMNS, floats=False, text=STACK_TEXT)
    place = ["/p/train.py", 3, "scan", "os.py:1 walk", 1000 * MS, "", ""]
    stacks.extend([[-30_000 * MS, 20_000 * MS, 20, *place]])
    started = -40_000 * MS
    one = judged("slow-start", started_ns=started, stacks={"stacks": stacks.freeze()})
    assert one.sentence == (
        "The first step began 40 s after the start, 99 % of the run so far, 100 % of its samples "
        "at train.py:3."
    )
    assert one.severity is Severity.INFO
    assert judged("slow-start", started_ns=-30_000 * MS) is not None
    assert judged("slow-start", started_ns=-29_000 * MS) is None


def test_a_start_that_a_long_run_pays_off_is_not_reported() -> None:
    """40 s before 40 steps, which are to be four fifths of the run."""
    for each, has_finding in ((3_975, True), (4_025, False)):
        run = make_run(40, {"forward": each}, started_ns=-40_000 * MS)
        assert (found(diagnosis(Facts(run)), "slow-start") is not None) is has_finding


def test_a_start_is_not_judged_where_the_first_step_was_not_recorded() -> None:
    steps = step_table(40, {"forward": 10})
    later = Table(steps.columns, {**steps.values, "index": steps["index"] + 100})
    why = reasons(diagnosis(Facts(make_run(steps=later, started_ns=-40_000 * MS))))
    assert why["slow-start"] == "the first step was not recorded"


def test_a_machine_that_swaps_is_found_by_the_time_tasks_wait_for_memory() -> None:
    swapping = {"swap.in": 4e6, "pressure.memory": 25.0}
    one = judged("swapping", telemetry=telemetry_table(**swapping))
    assert one.sentence == (
        "The machine is short of memory and reads 3.8 MiB/s back from swap: tasks wait for memory "
        "2.5 ms of each 10 ms step (25 %)."
    )
    assert one.cost_ns == round(2.5 * MS)
    little = telemetry_table(**{**swapping, "swap.in": 9e5})
    assert judged("swapping", telemetry=little) is None
    assert judged("swapping") is None
    for pressure, severity in ((5, Severity.WARNING), (4.9, None)):
        waiting = telemetry_table(**{**swapping, "pressure.memory": pressure})
        one = judged("swapping", telemetry=waiting)
        assert severity_of(one) is severity
    why = reasons(all_judged(telemetry=telemetry_table(**{"swap.in": 4e6})))["swapping"]
    assert why == "this Linux kernel does not report how long tasks waited for memory"


OUTPUT = (
    b"epoch 0\r\n/p/train.py:9: UserWarning: Creating a tensor from a list of numpy.ndarrays is "
    b"extremely slow. Please consider\r\n  x = torch.tensor(rows)\r\n"
    b"W0101 torch._dynamo hit config.recompile_limit (8)\r\n" * 2
)


def test_what_a_library_says_is_a_hint_with_its_line(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_bytes(OUTPUT)
    one = judged("library-says", root=tmp_path)
    assert one.sentence == (
        'torch.tensor reports in line 2 of the output: "Creating a tensor from a list of '
        'numpy.ndarrays is extremely slow. Please consider"; 1 more message like it.'
    )
    assert (one.severity, one.cost_ns) == (Severity.INFO, 0)
    assert one.place.source == "/p/train.py:9"
    assert [figure.label for figure in one.facts] == ["torch.tensor, line 2", "dynamo, line 4"]


def test_nccl_goes_over_sockets_by_its_channels_not_by_what_it_finds(tmp_path: Path) -> None:
    """On one machine it names the sockets that it could use, and sends over NVLink."""
    log, told = tmp_path / "output.log", b"box:7 [0] NCCL INFO "
    log.write_bytes(told + b"NET/Socket : Using [0]eth0:10.0.0.1<0>\n")
    assert judged("library-says", root=tmp_path) is None
    log.write_bytes(told + b"Channel 00/0 : 1[0] -> 0[0] [send] via NET/Socket/0\n" * 2)
    one = judged("library-says", root=tmp_path)
    assert "NCCL reports in line 1" in one.sentence


def test_an_output_without_advice_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "output.log").write_bytes(b"loss 0.3\n" * 100)
    assert judged("library-says", root=tmp_path) is None
    assert judged("library-says", root=tmp_path / "gone") is None
