"""The machine: its cards and who uses them, its start, and what of it is not used."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from perftui.diagnosis.model import Finding, Severity
from perftui.diagnosis.symptoms.script.python_bound import python_in_model, without_profiler
from perftui.facts.cpu.machine import cards, machine_use
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import not_sampled, own_gpus
from perftui.facts.source.stack_profile import waiting
from perftui.run.columns import LOCK_COLUMNS
from perftui.run.manifest import GPU_DEVICES, NOT_SAMPLED
from perftui.run.reader import RunSnapshot
from perftui.run.table import Table
from perftui.telemetry.gpu.names import THERMAL
from tests.core.diagnosis.runs import (
    MS,
    ON_GPU,
    Events,
    Seen,
    event_table,
    make_run,
    run_of,
    stacks_of,
    step_table,
    telemetry_table,
    with_tables,
)
from tests.core.diagnosis.stories import busy, diagnosed, finding_of, found, reasons, training
from tests.step_rows import table_of
from tests.traces.builder import TraceBuilder, ms, us

GIB = 2.0**30
HOT = {"throttle_reasons": 0x20, "clock_sm": 1000.0, "clock_sm_max": 2000.0}
LINK = {"pcie_generation": 4.0, "pcie_generation_max": 4.0, "pcie_width_max": 16.0}


def on_card(
    story: TraceBuilder | None, profile: dict[str, Any] | None = None, **samples: float
) -> Facts:
    """A training on a card of these samples, 95 % of the time busy.

    Steps of a run of 40 of 1 ms begin at 0, samples come each ms."""
    values = {"memory_used": 20 * GIB, "memory_total": 100 * GIB, "utilization": 95.0, **samples}
    telemetry = telemetry_table(20, **{f"gpu0.{name}": value for name, value in values.items()})
    run = make_run(phases={"forward": 1}, telemetry=telemetry, profile=profile, **ON_GPU)
    return Facts(run, story.analysis() if story else None)


def card(profile: dict[str, Any] | None = None, **samples: float) -> Facts:
    """A training that computes half of the time."""
    return on_card(busy(0.5), profile, **samples)


def hot(clock: float, reasons: float = 0x20) -> Facts:
    return card(**HOT | {"throttle_reasons": reasons, "clock_sm": clock, "utilization": 50.0})


def test_the_power_limit_is_only_mentioned_and_heat_without_a_window() -> None:
    for facts in (hot(1500.0, reasons=0x04), on_card(None, **HOT)):
        finding = finding_of(facts, "thermal-or-power-cap")
        assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)


def test_computing_of_other_processes_is_a_warning() -> None:
    finding = finding_of(card(process_memory=5 * GIB), "shared-gpu")
    assert finding.severity is Severity.WARNING
    assert "busy 45 % of the time besides this training" in finding.sentence


SERVING = {"pid": 4123, "program": "python serve.py", "user": "ada", "memory": 12 * 2**30}
GONE = {"pid": 4200, "program": None, "user": None, "memory": 2 * 2**30}


def test_other_processes_are_named_the_largest_in_the_sentence() -> None:
    profile = {"gpu_processes": {"box": {"gpu0": [SERVING, GONE], "gpu1": [GONE]}}}
    finding = finding_of(card(profile, process_memory=5 * GIB, utilization=50.0), "shared-gpu")
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
    others = card({"gpu_processes": noted}, process_memory=5 * GIB, utilization=50)
    finding = finding_of(others, "shared-gpu")
    assert finding.sentence.endswith("(14 % of its memory).")


def test_waiting_for_other_ranks_is_no_computing_of_others() -> None:
    """The kernel of a collective keeps the card busy as well."""

    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().launch("gemm", us(500), call=us(2), starts=begin)
        t.all_reduce(us(450), starts=begin + us(500)).at(begin + us(1000)).end()

    finding = finding_of(on_card(training().repeat(3, step), process_memory=5 * GIB), "shared-gpu")
    assert finding.severity is Severity.INFO


@pytest.mark.parametrize(
    ("width", "generation", "speed"), [(8.0, 4.0, "50 %"), (16.0, 3.0, "50 %"), (8.0, 3.0, "25 %")]
)
def test_a_slow_link_is_mentioned(width: float, generation: float, speed: str) -> None:
    slow = card(**LINK | {"pcie_width": width, "pcie_generation": generation})
    finding = finding_of(slow, "pcie-degraded")
    assert f"runs at {speed} of what the card supports" in finding.sentence
    assert (finding.severity, finding.cost_ns) == (Severity.INFO, 0)


def test_a_slow_link_costs_its_part_of_exposed_copies() -> None:
    def step(t: TraceBuilder) -> None:
        begin = t.now
        t.step().copy("HtoD", us(200), 1 << 20, call=us(2), starts=begin)
        t.launch("gemm", us(800), call=us(2), starts=begin + us(200)).at(begin + us(1000)).end()

    story = training().repeat(20, step)
    finding = finding_of(on_card(story, **LINK, pcie_width=8.0), "pcie-degraded")
    assert (finding.severity, finding.cost_ns) == (Severity.WARNING, us(100))
    assert finding.parts == ("exposed copies",)


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
    counts = {"tensors": 1, "trained": 1, "elements": 1, "tables": 1, "unused": 0}
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


def test_figures_are_those_of_the_mig_device_that_the_run_uses_if_it_is_known() -> None:
    table = divided(memory_used=3.0, memory_total=10.0, utilization=40.0)
    told = noted_facts(note(uuids=["1"]), {GPU_DEVICES: {"box": PARTS}}, telemetry=table, **ON_GPU)
    use = machine_use(told)
    assert (use.cards, use.gpu_busy) == (1, 0.4)
    assert [(one.name, one.share) for one in use.memory] == [("GPU0 MIG1", 0.3)]
    (card,) = cards(told)
    # Heat and clocks are the card's.
    assert (card.mean("utilization"), card.most("memory_total")) == (40.0, 10.0)
    assert (card.most("temperature"), card.held_down(THERMAL)) == (90.0, 1.0)
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


def facts_of(
    events: Events = (), *, stacks: dict[str, Table] | None = None, computing: float = 6, **run: Any
) -> Facts:
    run = {"phases": {"forward": 8, "other": 2}, **run}
    recorded = with_tables(make_run(events=events, **run), **(stacks or {}))
    return Facts(recorded, window(computing).analysis())


def judged(rule: str, events: Events = (), **run: Any) -> Finding | None:
    return found(facts_of(events, **run), rule)


def held(
    share: float, idle: float = 0.5, known: bool = True, file: str = "/p/data.py"
) -> dict[str, Table]:
    """A turn of 1 s within the run's 400 ms and behind it, in which a thread held the lock."""
    second = 1_000 * MS
    still = round(idle * second) if known else -1
    place = [file, 7, "poll", "queue.py:98 qsize", 100 * MS, "", ""]
    row = [100 * MS, round(share * second), 9, *place, second, still]
    return {"lock_stacks": table_of(LOCK_COLUMNS, [row])}


def test_the_lock_costs_no_more_than_python_takes() -> None:
    assert judged("gil-contention", stacks=held(0.9, idle=0.9)).cost_ns == 4 * MS


def test_a_thread_of_its_own_that_never_rests_takes_a_core_of_few() -> None:
    waits = telemetry_table(**{"processes.delayed": 40.0, "processes.cpu": 200.0})
    two, many = (
        judged("gil-contention", stacks=held(1, idle=0), telemetry=waits, cpu_count=cores)
        for cores in (2, 8)
    )
    assert two is not None
    assert (two.cost_ns, many) == (4 * MS, None)
    assert (
        "poll runs Python 100 % of the time: the training thread waits for a core" in two.sentence
    )


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
    usual = diagnosed(facts_of(phases={"forward": 6.4, "other": 1.6}))
    assert any(one.sentence.startswith("Python in the model") for one in usual.findings)
    held_up = diagnosed(facts_of(phases={"forward": 6.3, "other": 1.6}))
    assert not any(one.sentence.startswith("Python in the model") for one in held_up.findings)
    assert reasons(held_up)["python-bound"] == (
        "profiled steps took 10 ms, where the mean step takes 7.9 ms: something else held them up"
    )


def waiting_for(workers: int) -> Facts:
    """A thread holds the lock while the main one waits for batches of so many workers."""
    waits = {"phases": {"input_wait": 4, "forward": 4, "other": 2}, "stacks": held(0.9, idle=0.44)}
    return facts_of(loaders=({"num_workers": workers},), **waits)


def test_without_workers_what_fetches_waits_for_the_lock() -> None:
    assert found(waiting_for(0), "gil-contention") is not None


def test_what_the_script_waits_for_itself_is_no_wait_for_the_lock() -> None:
    """A fifth of its samples are in a call that waits for the network."""
    inner = {True: "python3/socket.py:9 recv", False: "p/train.py:1 main"}
    seen = (Seen(at * 100, 100, 5, inner=inner[at % 5 == 0]) for at in range(100))
    assert waiting(Facts(run_of(step_table(100, {"other": 100}), *seen))) == pytest.approx(0.2)

    def lost(known: bool) -> int | None:
        facts = facts_of(stacks=held(0.5, idle=0.5, known=known))
        facts.worked_out[waiting] = 0.2
        one = found(facts, "gil-contention")
        return one.cost_ns if one else None

    assert lost(known=True) == pytest.approx(3 * MS)
    assert lost(known=False) == pytest.approx(4 * MS)


def test_without_the_time_the_main_thread_ran_it_is_less_sure() -> None:
    one = judged("gil-contention", stacks=held(0.6, known=False))
    assert one.would_raise_confidence == "how long the main thread ran"


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


def built_for(architecture: str) -> Facts:
    """A run on a GPU, with a torch that has code for these alone."""
    build = {"cuda": "13.0", "architectures": architecture.split()}
    return facts_of(settings(build=build, **A_GPU), **ON_GPU)


SPREAD = settings(
    **A_GPU,
    parameters=[{"dtype": "float32", "device": f"cuda:{at}", "tensors": 4} for at in range(4)],
)


def on_cards(events: Events, *busy: float) -> Facts:
    """On a machine whose cards are busy so many percent."""
    busy_cards = {f"gpu{at}.utilization": value for at, value in enumerate(busy)}
    return facts_of(events, telemetry=telemetry_table(**busy_cards), **ON_GPU)


def starting_late() -> Facts:
    """The first step begins 40 s after the start; of the 20 s before it all samples are known."""
    stacks = stacks_of(Seen(-30_000, 20_000, 3))
    return facts_of(started_ns=-40_000 * MS, stacks={"stacks": stacks})


def begun_later() -> RunSnapshot:
    """Only from step 100 on there are steps."""
    steps = step_table(40, {"forward": 10})
    later = Table(steps.columns, {**steps.values, "index": steps["index"] + 100})
    return make_run(steps=later, started_ns=-40_000 * MS)


def swapping(**samples: float) -> Facts:
    usual = {"swap.in": 4e6, "pressure.memory": 25.0}
    return facts_of(telemetry=telemetry_table(**{**usual, **samples}))


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
