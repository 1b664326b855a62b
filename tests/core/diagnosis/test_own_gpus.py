"""Which of the machine's GPUs a training uses, by what its agent notes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perftui.facts.cpu.machine import cards, machine_use
from perftui.facts.fact import Facts
from perftui.facts.gpu.cards import not_sampled, own_gpus
from perftui.run.manifest import GPU_DEVICES, NOT_SAMPLED
from tests.core.diagnosis.runs import ON_GPU, event_table, make_run, telemetry_table

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


def facts_of(told: dict[str, Any] | None, profile: Any = PROFILE, **more: Any) -> Facts:
    events = (("settings", told),) if told is not None else ()
    return Facts(make_run(events=events, profile=profile, **more))


def own(told: dict[str, Any] | None, profile: Any = PROFILE) -> tuple[str, ...] | None:
    return own_gpus.or_none(facts_of(told, profile))


def test_the_gpu_is_that_of_the_uuid_whatever_its_number() -> None:
    assert own(note(uuids=["aa-22", "aa-00"])) == ("gpu2",)
    assert own(note(uuids=["aa-22", "aa-00"], current=1)) == ("gpu0",)


def test_gpus_with_parameters_count_before_the_current_one() -> None:
    assert own(note(held=["cuda:3"])) == ("gpu3",)
    assert own(note(held=["cuda:3", "cuda:1", "cpu"])) == ("gpu1", "gpu3")
    assert own(note(held=["cpu"], current=2)) == ("gpu2",)
    assert own(note(held=["cuda"], current=2)) == ("gpu2",)


def test_gpus_of_data_parallel_are_used_too() -> None:
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
    assert not_sampled(facts_of(note(), profile)) == {}


def test_why_a_metric_is_not_sampled_is_known_by_host() -> None:
    assert not_sampled(facts_of(note())) == {"gpu0.fan": "NVML says: Not Supported"}


def machine(**busy: float) -> Any:
    values: dict[str, float] = {}
    for card, share in busy.items():
        values |= {f"{card}.utilization": share, f"{card}.memory_used": share}
        values |= {f"{card}.memory_total": 100.0, f"{card}.process_memory": float("nan")}
    return telemetry_table(**values)


def test_the_machines_figures_are_those_of_the_runs_own_card() -> None:
    """In a container no card lists a process that the run knows."""
    table = machine(gpu0=90.0, gpu1=20.0)
    unknown = machine_use(facts_of(None, telemetry=table, **ON_GPU))
    assert (unknown.gpu_busy, unknown.memory) == (None, ())
    told = machine_use(facts_of(note(uuids=["aa-11"]), telemetry=table, **ON_GPU))
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
    told = facts_of(note(uuids=["1"]), {GPU_DEVICES: {"box": PARTS}}, telemetry=table, **ON_GPU)
    use = machine_use(told)
    assert (use.cards, use.gpu_busy) == (1, 0.4)
    assert [(one.name, one.share) for one in use.memory] == [("GPU0 MIG1", 0.3)]
    (card,) = cards(told)
    # Heat and clocks are the card's.
    assert (card.busy, card.memory_total, card.temperature, card.thermal) == (0.4, 10.0, 90.0, 1.0)


def test_mig_devices_are_not_taken_for_each_other() -> None:
    table = divided(memory_used=3.0, memory_total=10.0, utilization=40.0)
    use = machine_use(facts_of(None, telemetry=table, **ON_GPU))
    assert (use.gpu_busy, use.memory) == (None, ())
    held = divided(memory_used=3.0, memory_total=10.0, utilization=40.0, process_memory=2.0)
    use = machine_use(facts_of(None, telemetry=held, **ON_GPU))
    assert [one.name for one in use.memory] == ["GPU0 MIG1"]
