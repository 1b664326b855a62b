"""What GPUs are called: by their columns, by a person, and by the driver."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

PREFIX = re.compile(r"(gpu(\d+)(?:\.mig(\d+))?)\.")
"""What the name of a column of a GPU begins with: the prefix, the card's number and that of its MIG
device."""


def gpu_prefixes(names: Iterable[str]) -> list[str]:
    """What the columns of each GPU among ``names`` begin with, in the order of their numbers."""
    matches = (PREFIX.match(name) for name in names)
    found = {match[1]: (int(match[2]), int(match[3] or -1)) for match in matches if match}
    return sorted(found, key=found.__getitem__)


def gpu_name(prefix: str) -> str:
    """How a person calls it: ``GPU 0``, or ``GPU0 MIG1`` for a MIG device of it."""
    card, _, part = prefix.partition(".")
    number = card.removeprefix("gpu")
    return f"GPU{number} {part.upper()}" if part else f"GPU {number}"


@dataclass(frozen=True)
class Gpu:
    """An identified GPU, as the manifest of a run lists it."""

    prefix: str
    """What its columns begin with: ``gpu0`` for a card, ``gpu0.mig1`` for a MIG device of it."""
    name: str
    uuid: str | None = None
    """By NVML, such as ``GPU-8a56...`` or ``MIG-f3c1...``; None where it has not answered."""
