"""The machine: unused or wrongly used GPUs, slow starts, swapping, and cards below their limits."""

from __future__ import annotations

import numpy as np

from perftui import format as fmt
from perftui.analysis.steps import COMPUTE, EXPOSED_COMMUNICATION, EXPOSED_COPIES
from perftui.diagnosis.model import Figure, Severity
from perftui.diagnosis.rule import Limits, Lost, rule, without_cost
from perftui.facts.cpu.machine import GpuCard, cards, has_gpu, machine_use, ranks_here
from perftui.facts.fact import Facts, NotApplicableError, UnknownError
from perftui.facts.gpu.cards import gpu_processes
from perftui.facts.settings import Build, Devices, Settings, settings
from perftui.facts.source.lines import lines_by_time, stack_samples
from perftui.facts.step.judged_step import judged_step
from perftui.telemetry.gpu.names import POWER, THERMAL

FASTER = 10
"""Least speedup of a GPU over the cores of its host."""

SWAPPED_IN = 1_000_000
"""Bytes a second from which the machine swaps, as in gpuprof."""

LONG_START = 30_000_000_000
"""Length of a start, ns, below which nobody minds."""

LEAST_NAMED = 0.25
"""Share of the start from which a line is named."""


@rule(
    when="the model computes on the CPU though the machine has a GPU, or torch is not built for it",
    limits=Limits("A GPU is at least ten times as fast.", 0.10, 0.30),
    answer="install a torch built for this GPU, and move the model and the batches to the GPU",
)
def wrong_build(facts: Facts) -> Lost | None:
    """torch is built without CUDA, the GPU is hidden, the model was never moved, or torch has no
    code for this GPU and compiles each kernel at first use. The cost is nine tenths of the time
    computed on the CPU."""
    setup, manifest = settings(facts), facts.manifest
    if manifest is None:
        raise NotApplicableError
    if setup.devices is not None:
        return _missing_architecture(setup.devices, setup.build)
    if not manifest.gpus or has_gpu(facts) or not setup.parameters:
        return None
    if any(group.device != "cpu" for group in setup.parameters):
        return None
    judged = judged_step(facts)
    cost = judged.computing * (FASTER - 1) // FASTER
    computing = judged.of.part_of(judged.computing)
    return Lost(
        cost,
        judged.of,
        f"The model computes on the CPU, {computing}, while the machine has "
        f"{' and '.join(dict.fromkeys(manifest.gpus))}: {_why_on_cpu(setup)}.",
        (
            Figure("GPUs", len(manifest.gpus), "count"),
            Figure("computing on the CPU", judged.computing, "ns"),
        ),
        parts=judged.names(computes=True),
    )


def _why_on_cpu(setup: Settings) -> str:
    build = setup.build
    if build.torch and build.cuda is None and build.hip is None:
        return f"torch {build.torch} is built without CUDA"
    hidden = (setup.environment or {}).get("CUDA_VISIBLE_DEVICES")
    if hidden is not None and hidden.strip() in ("", "-1"):
        return f"CUDA_VISIBLE_DEVICES={hidden!r} hides it"
    return "the parameters are on the CPU"


def _missing_architecture(devices: Devices, build: Build) -> Lost | None:
    """Code of one architecture runs on all later ones of the same generation."""
    has, mine = build.architectures, devices.architecture
    if not has or not mine or not mine.startswith("sm_"):
        return None
    major, minor = _version(mine)
    binaries = [_version(architecture) for architecture in has if architecture.startswith("sm_")]
    if any(binary[0] == major and binary[1] <= minor for binary in binaries):
        return None
    return without_cost(
        f"This torch has no code for the GPU ({mine}): it was built for {', '.join(has)}, so "
        "kernels are compiled at first use, if at all.",
        (Figure("architecture", mine), Figure("built for", ", ".join(has))),
        share=1.0,
    )


def _version(architecture: str) -> tuple[int, int]:
    digits = "".join(char for char in architecture.partition("_")[2] if char.isdecimal())
    return int(digits[:-1] or 0), int(digits[-1:] or 0)


@rule(
    when="the training sees GPUs that nothing runs on",
    limits=Limits.of_hint(0.01, "Only you know whether they should be used.", of="of the GPUs"),
    answer="start one process per GPU with torchrun, or request fewer GPUs",
)
def gpus_unused(facts: Facts) -> Lost | None:
    """The training holds more GPUs than it uses."""
    setup = settings(facts)
    visible = setup.devices.visible if setup.devices else 0
    if not visible or facts.run is None:
        raise NotApplicableError
    used = max(ranks_here(facts), _devices_of(setup))
    unused = min(visible - used, machine_use(facts).idle_cards)
    if unused <= 0:
        return None
    return without_cost(
        f"The training uses {used} of the {visible} GPUs that it sees, and nothing else runs on "
        f"{fmt.several(unused, 'other')}.",
        (Figure("GPUs it sees", visible, "count"), Figure("GPUs that idle", unused, "count")),
        share=min(unused / visible, 0.9),
    )


def _devices_of(setup: Settings) -> int:
    """GPUs used by one process: with parameters there, or by ``DataParallel``."""
    holding = {group.device for group in setup.parameters or () if group.device != "cpu"}
    wrapped = [wrapper.arguments.get("device_ids") for wrapper in setup.wrappers or ()]
    # An attribute that is no plain value is noted as text: "[0, 1]".
    several = [text.count(",") + 1 for text in wrapped if isinstance(text, str)]
    return max([1, len(holding), *several])


@rule(
    when="the first step starts late",
    is_caution=True,
    limits=Limits.of_hint(0.20, "A longer run makes up for it.", of="of the run"),
    answer="keep the results of the start-up work in a file",
)
def slow_start(facts: Facts) -> Lost | None:
    """Imports, file listings, loading data or compiling took much of the run so far, and at least
    half a minute. That matters in many short runs."""
    steps, manifest = facts.steps, facts.manifest
    if manifest is None:
        raise NotApplicableError
    if not len(steps) or int(steps["index"][0]):
        raise UnknownError("the first step was not recorded")
    first, last = int(steps["start"][0]), int((steps["start"] + steps["duration"]).max())
    before = max(first - manifest.started_ns, 0)
    run = max(last - manifest.started_ns, 1)
    if before < LONG_START:
        return None
    stacks, _ = stack_samples(facts)
    early = np.where(stacks["time"] < first, stacks["held"], 0) if len(stacks) else None
    lines = None if early is None else lines_by_time(stacks, early)
    line, at = lines.named(LEAST_NAMED * lines.covered) if lines else (None, "")
    at = f", {fmt.percent(lines.share(line))} of its samples {at}" if lines and line else ""
    return without_cost(
        f"The first step began {fmt.duration(before)} after the start, "
        f"{fmt.percent(before / run)} of the run so far{at}.",
        (Figure("before the first step", before, "ns"), Figure("run", run, "ns")),
        place=facts.at(line) if line else None,
        share=min(before / run, 0.9),
    )


@rule(
    when="the machine is short of memory and reads from swap",
    limits=Limits(),
    answer="use fewer workers, a lower prefetch_factor or smaller caches",
)
def swapping(facts: Facts) -> Lost | None:
    """The cost is the time that some task waited for memory."""
    use = machine_use(facts)
    if use.swapped_in is None:
        raise NotApplicableError
    if use.swapped_in < SWAPPED_IN:
        return None
    if use.memory_pressure is None:
        raise UnknownError("this Linux kernel does not report how long tasks waited for memory")
    judged = judged_step(facts)
    cost = round(min(use.memory_pressure / 100, 1.0) * judged.of.mean)
    return Lost(
        cost,
        judged.of,
        f"The machine is short of memory and reads {fmt.size(use.swapped_in)}/s back from swap: "
        f"tasks wait for memory {judged.of.part_of(cost)}.",
        (
            Figure("read from swap", f"{fmt.size(use.swapped_in)}/s"),
            Figure.share("waiting for memory", use.memory_pressure / 100),
        ),
        parts=tuple(part.name for part in judged.parts),
    )


HELD_DOWN = 0.10
"""Share of samples with a limit in force from which it is the usual state."""

FULL_CLOCK = 0.90
"""Share of the maximum clock below which a limit's cost is reported."""

MOST_NAMED = 3
"""Most other processes named."""

DRIVER = 1 << 30
"""Bytes of a card that the driver itself may hold."""


def _cards(facts: Facts) -> tuple[GpuCard, ...]:
    return cards(facts) if has_gpu(facts) else ()


@rule(
    when="heat or the power limit throttles the GPU's clock",
    limits=Limits("A clock a tenth lower shows in step times.", info=0.0),
    answer="improve the cooling, or raise a lowered power limit",
)
def thermal_or_power_cap(facts: Facts) -> Lost | None:
    """Reaching the power limit is normal for a busy card; nvidia-smi -q -d POWER shows whether the
    limit was lowered."""
    # A card limited by heat or power. The power limit is normal for a busy card and only a hint;
    # heat is a fault.
    sensed = [
        (thermal, card.held_down(POWER) or 0.0, card.clock, card)
        for card in _cards(facts)
        if (thermal := card.held_down(THERMAL)) is not None and card.clock is not None
    ]
    if not sensed:
        return None
    thermal, power, clock, worst = max(sensed, key=lambda row: row[:2])
    if clock >= FULL_CLOCK or max(thermal, power) < HELD_DOWN:
        return None
    judged, hottest = judged_step.or_none(facts), worst.most("temperature")
    is_hot = thermal >= HELD_DOWN
    slower = thermal * (1 - clock) if is_hot else 0.0
    computing = judged.part(COMPUTE) if judged and judged.on_device else 0
    why, often = ("Heat", thermal) if is_hot else ("Its power limit", power)
    return Lost(
        round(computing * slower),
        judged.of if judged and computing and is_hot else None,
        f"{why} limits the clock of {worst.name} in {fmt.percent(often)} of the samples, to "
        f"{fmt.percent(clock)} of its maximum on average.",
        (
            Figure.share("limited by heat", thermal, HELD_DOWN),
            Figure.share("limited by power", power),
            Figure.share("clock, of the maximum", clock, FULL_CLOCK),
            *((Figure("hottest", hottest, "°C"),) if hottest else ()),
        ),
        parts=(COMPUTE,),
        shows_step=False,
    )


@rule(
    when="the PCIe link is slower than the card supports",
    limits=Limits(info=0.0),
    answer="try another slot or riser, and check the settings of the firmware",
)
def pcie_degraded(facts: Facts) -> Lost | None:
    """The link has fewer lanes, or is of an older generation. Only exposed copies take longer."""
    for card in _cards(facts):
        # The highest seen: an idle link may slow down.
        generation, width = card.most("pcie_generation"), card.most("pcie_width")
        best, widest = card.most("pcie_generation_max"), card.most("pcie_width_max")
        if generation is None or width is None or not best or not widest:
            continue
        # Each generation doubles the rate of a lane.
        speed = 2 ** (generation - best) * width / widest
        if speed >= 1:
            continue
        judged = judged_step.or_none(facts)
        copying = judged.part(EXPOSED_COPIES) if judged else 0
        return Lost(
            round(copying * (1 - speed)),
            judged.of if judged and copying else None,
            f"The PCIe link of {card.name} runs at {fmt.percent(speed)} of what the card supports: "
            f"generation {generation:.0f} of {best:.0f}, {width:.0f} of {widest:.0f} lanes.",
            (Figure.share("of the link's speed", speed),),
            parts=(EXPOSED_COPIES,),
            shows_step=False,
        )
    return None


SHARED_MEMORY = 0.10
SHARED_USE = 0.20


@rule(
    when="other processes use the GPU",
    limits=Limits("Memory alone costs no time.", SHARED_USE, 0.5, of="of the GPU's time", info=0.0),
    answer="stop the other processes, or use another card",
)
def shared_gpu(facts: Facts) -> Lost | None:
    """The other process may take turns computing with this training. Often it is an earlier run
    that never exited; nvidia-smi lists it."""
    # Other processes only cost time if they compute: the card is then busier than the training's
    # own trace shows.
    judged = judged_step.or_none(facts)
    for card in _cards(facts):
        others, total, use = card.memory_others, card.most("memory_total"), card.mean("utilization")
        if not others or not total:
            continue
        share = (others - DRIVER) / total
        if share < SHARED_MEMORY:
            continue
        own = None
        if judged and judged.on_device:
            # A kernel that waits for other ranks also keeps the card busy.
            own = (judged.computing + judged.part(EXPOSED_COMMUNICATION)) / judged.of.mean
        beside = use / 100 - own if use is not None and own is not None else 0.0
        busy = f" and keep it busy {fmt.percent(beside)} of the time besides this training"
        processes = gpu_processes(facts).get(card.prefix, ())[:MOST_NAMED]
        largest = f"; the largest is {processes[0].label}" if processes else ""
        return without_cost(
            f"Other processes hold {fmt.size(others)} of {card.name} "
            f"({fmt.percent(share)} of its memory){busy if beside >= SHARED_USE else ''}{largest}.",
            (
                Figure.share("memory of other processes", share, SHARED_MEMORY),
                *(Figure(proc.label, proc.memory, "B") for proc in processes if proc.memory),
                *(
                    (Figure.share("busy with other work", beside, SHARED_USE),)
                    if beside > 0
                    else ()
                ),
            ),
            share=max(beside, 0.0),
            worst=Severity.WARNING,
        )
    return None
