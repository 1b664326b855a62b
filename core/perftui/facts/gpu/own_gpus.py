"""Which of the GPUs that are sampled a rank uses."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import suppress

import msgspec

from perftui.facts.fact import Facts, UnknownError, fact
from perftui.facts.samples import noted_of_host
from perftui.facts.settings import Devices, Settings, settings
from perftui.run.manifest import GPU_DEVICES, NOT_SAMPLED
from perftui.telemetry.gpu.names import Gpu, visible_gpus


@fact
def own_gpus(facts: Facts) -> tuple[str, ...]:
    """What the columns of the rank's GPUs begin with, such as ``gpu2`` or ``gpu0.mig1``.

    Raises:
        UnknownError: it is not known which of the GPUs it uses.
    """
    known = settings(facts)
    if known is None or known.devices is None:
        raise UnknownError("the training has not reported which GPUs it sees")
    seen = visible_gpus(sampled_gpus(facts), known.devices.uuids, known.environment or {})
    used = sorted(set(_numbers(known, known.devices)))
    if seen is None or not used or used[-1] >= len(seen):
        raise UnknownError("which GPUs the training uses is not known")
    found = [gpu for gpu in (seen[number] for number in used) if gpu is not None]
    if len(found) < len(used):
        raise UnknownError("which GPUs the training uses is not known")
    return tuple(gpu.prefix for gpu in found)


def _numbers(known: Settings, devices: Devices) -> Iterator[int]:
    """Numbers of the devices that hold parameters or take part in ``DataParallel``; of the current
    one where none holds any."""
    held = [one.device for one in known.parameters or () if one.device.startswith("cuda")]
    several = [one.arguments.get("device_ids") for one in known.wrappers or ()]
    # An attribute that is no plain value is noted as text: "[0, 1]".
    split = [number for text in several for number in re.findall(r"\d+", str(text or ""))]
    numbered = [device.partition(":")[2] for device in held]
    yield from (int(number) for number in (*numbered, *split) if number)
    if devices.current is not None and (not held or "" in numbered):
        yield devices.current


def sampled_gpus(facts: Facts) -> list[Gpu]:
    """The GPUs that were found on the rank's host; none where the run does not list them."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(noted_of_host(facts, GPU_DEVICES) or [], list[Gpu])
    return []


@fact
def not_sampled(facts: Facts) -> dict[str, str]:
    """Why a metric of the rank's host is not sampled, by its name, or that of a device."""
    with suppress(msgspec.ValidationError):
        return msgspec.convert(noted_of_host(facts, NOT_SAMPLED) or {}, dict[str, str])
    return {}
