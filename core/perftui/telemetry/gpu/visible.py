"""Which GPUs a training sees, by what NVML calls them: CUDA may count them in another order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from perftui.telemetry.gpu.names import Gpu

VISIBLE = "CUDA_VISIBLE_DEVICES"
ORDER = "CUDA_DEVICE_ORDER"


def visible_gpus(
    gpus: Sequence[Gpu], uuids: Sequence[str] | None, environment: Mapping[str, str]
) -> tuple[Gpu | None, ...] | None:
    """The GPUs that a training sees, in CUDA's order: number n is ``cuda:n``.

    ``gpus`` are those that are sampled; ``uuids`` those of the training's devices as torch reports
    them, None where it does not; ``environment`` has the training's variables. None stands for a
    GPU that cannot be identified, or for all of them.
    """
    if uuids is not None:
        return tuple(_by_uuid(gpus, uuid, environment) for uuid in uuids)
    if VISIBLE in environment:
        return _by_list(gpus, environment[VISIBLE], environment)
    cards = _in_order(gpus, environment)
    return tuple(cards) if cards is not None else None


def _by_uuid(gpus: Sequence[Gpu], uuid: str, environment: Mapping[str, str]) -> Gpu | None:
    found = [gpu for gpu in gpus if gpu.uuid and _bare(gpu.uuid) == _bare(uuid)]
    if len(found) != 1:
        return None
    (gpu,) = found
    parts = _parts(gpus, gpu)
    if not parts:
        return gpu
    # CUDA gives the card's own UUID for a MIG device of it, and uses one MIG device at most.
    first = environment.get(VISIBLE, "").split(",")[0].strip()
    named = [part for part in parts if first and (part.uuid or "").startswith(first)]
    chosen = named or parts
    return chosen[0] if len(chosen) == 1 else None


def _by_list(
    gpus: Sequence[Gpu], text: str, environment: Mapping[str, str]
) -> tuple[Gpu | None, ...] | None:
    """``CUDA_VISIBLE_DEVICES``: what stands after an entry that names no device is ignored."""
    found: list[Gpu | None] = []
    cards = _in_order(gpus, environment)
    entries = [entry.strip() for entry in text.split(",")]
    for entry in entries:
        if entry.startswith(("GPU-", "MIG-")):
            named = [gpu for gpu in gpus if (gpu.uuid or "").startswith(entry)]
            if len(named) != 1:
                break
            found.append(named[0])
        elif not entry.isdecimal():
            break
        elif cards is None:
            found.append(None)
        elif int(entry) < len(cards):
            found.append(cards[int(entry)])
        else:
            break
    known = [gpu for gpu in found if gpu is not None]
    # CUDA finds no device at all where one is named twice.
    return () if len(set(known)) < len(known) else tuple(found)


def _in_order(gpus: Sequence[Gpu], environment: Mapping[str, str]) -> list[Gpu] | None:
    """All cards as CUDA numbers them; None where that is not known.

    NVML's order is that of the PCI bus, CUDA's only where that is asked for: else the fastest card
    comes first. Of cards in MIG mode CUDA uses a single MIG device.
    """
    cards = [gpu for gpu in gpus if "." not in gpu.prefix]
    if len(cards) < len(gpus):
        return None
    is_by_bus = environment.get(ORDER) == "PCI_BUS_ID"
    return cards if is_by_bus or len(cards) == 1 else None


def _parts(gpus: Sequence[Gpu], card: Gpu) -> list[Gpu]:
    """The MIG devices of ``card``."""
    return [gpu for gpu in gpus if gpu.prefix.startswith(f"{card.prefix}.")]


def _bare(uuid: str) -> str:
    """A UUID without what NVML puts before it, and torch does not."""
    text = uuid.lower()
    for kind in ("gpu-", "mig-"):
        text = text.removeprefix(kind)
    return text
