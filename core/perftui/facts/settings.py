"""How a training is set up, from the ``settings`` event of its agent."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, get_type_hints

import msgspec

from perftui.facts.fact import Facts, fact, notes_of
from perftui.facts.place import Place


class Threads(msgspec.Struct, frozen=True):
    """Threads of torch within one operator, and operators that run at a time."""

    intra_op: int | None = None
    inter_op: int | None = None


class Cores(msgspec.Struct, frozen=True):
    """Cores that the training thread may run on."""

    affinity: int | None = None


class Matmul(msgspec.Struct, frozen=True):
    """Precision of float32 products, and where TensorFloat-32 is allowed."""

    float32_precision: str | None = None
    """``highest``, ``high`` or ``medium``."""
    allow_tf32: bool | None = None
    cudnn_allow_tf32: bool | None = None


class Cudnn(msgspec.Struct, frozen=True):
    """Flags of ``torch.backends.cudnn``."""

    enabled: bool | None = None
    benchmark: bool | None = None
    deterministic: bool | None = None


class Mkldnn(msgspec.Struct, frozen=True):
    """oneDNN, which computes convolutions and products on the CPU."""

    available: bool | None = None
    enabled: bool | None = None


class Build(msgspec.Struct, frozen=True):
    """What torch was built for; ``architectures`` as ``sm_90`` and ``compute_90``."""

    torch: str | None = None
    cuda: str | None = None
    hip: str | None = None
    architectures: tuple[str, ...] | None = None


class Devices(msgspec.Struct, frozen=True):
    """GPUs that the process sees; ``architecture`` of the one that it uses, such as ``sm_90``."""

    visible: int | None = None
    current: int | None = None
    architecture: str | None = None
    uuids: tuple[str, ...] | None = None
    """Of all that it sees, in its order; None in runs of older versions, and of an older torch."""


class Modes(msgspec.Struct, frozen=True):
    """Modes of torch that hold for all operators, between two training steps."""

    deterministic: bool | None = None
    anomaly: bool | None = None
    """Whether anomaly detection is on, even if only within steps; None if unknown."""
    default_dtype: str | None = None
    """Data type of new tensors of floating point numbers; None if not known."""


class GarbageCollection(msgspec.Struct, frozen=True):
    """Python's garbage collector; ``frozen`` counts objects that it never visits."""

    thresholds: tuple[int, ...] = ()
    frozen: int | None = None


class OptimizerSettings(msgspec.Struct, frozen=True):
    """One optimizer; ``file``, ``line`` to ``end_line`` are the call that made it.

    ``fused`` and the like are as the script or an override gave them: None leaves the choice to
    torch, or stands for parameter groups that differ."""

    name: str = ""
    """The class with its module, such as ``torch.optim.adamw.AdamW``."""
    file: str | None = None
    line: int | None = None
    end_line: int | None = None
    fused: bool | None = None
    foreach: bool | None = None
    capturable: bool | None = None
    differentiable: bool | None = None
    groups: int | None = None
    parameters: int | None = None
    """Tensors."""

    @property
    def class_name(self) -> str:
        """The class alone, such as ``AdamW``."""
        return self.name.rpartition(".")[2]

    @property
    def source(self) -> str:
        """``file:line`` of the call; empty if unknown."""
        return f"{Path(self.file).name}:{self.line}" if self.file else ""

    def is_made_at(self, file: str | None, line: int | None) -> bool:
        """Whether ``file:line`` is that call; True for every file and line that is None."""
        if file is None:
            return True
        if self.file is None or self.line is None or Path(file) != Path(self.file):
            return False
        return line is None or self.line <= line <= max(self.end_line or 0, self.line)


class Wrapper(msgspec.Struct, frozen=True):
    """Modules that train on several devices; ``arguments`` differ by ``name``, their class."""

    name: str
    arguments: dict[str, Any]


class Parameters(msgspec.Struct, frozen=True):
    """Parameters of one data type on one device; ``trained`` are the tensors with gradients.

    ``unused`` are trained tensors that no optimizer holds; None if not recorded, as before December
    2026."""

    dtype: str
    device: str
    tensors: int = 0
    trained: int = 0
    elements: int = 0
    tables: int | None = None
    """Elements of embedding tables with dense gradients; None in runs of older versions."""
    unused: int | None = None
    unused_elements: int | None = None


class Untrained(msgspec.Struct, frozen=True):
    """A module whose gradients no optimizer uses; ``path`` is empty where the script calls it at
    ``file`` and ``line``, else its place in the module that is called there."""

    path: str
    name: str
    """Its class."""
    file: str = ""
    line: int = 0

    @property
    def short(self) -> str:
        """The last name of ``path``; the class where that is a number or missing."""
        name = self.path.rpartition(".")[2]
        return name if name.isidentifier() else self.name


class Settings(msgspec.Struct, frozen=True):
    """Settings of one training process, a few steps after it began to train.

    None stands for what its torch does not have, and for what is not known."""

    threads: Threads = Threads()
    cores: Cores = Cores()
    processor: tuple[str, ...] | None = None
    """Features of the processor that compute with numbers of 16 bits; None if not known."""
    environment: dict[str, str] | None = None
    """Set variables that matter to speed, of a fixed list."""
    matmul: Matmul = Matmul()
    cudnn: Cudnn = Cudnn()
    mkldnn: Mkldnn = Mkldnn()
    build: Build = Build()
    devices: Devices | None = None
    """Settings of the GPUs; None until the training uses one."""
    modes: Modes = Modes()
    autocast: dict[str, str] | None = None
    """Data type by kind of device; also None if the model casts internally."""
    gc: GarbageCollection = GarbageCollection()
    optimizers: tuple[OptimizerSettings, ...] | None = None
    wrappers: tuple[Wrapper, ...] | None = None
    parameters: tuple[Parameters, ...] | None = None
    untrained: tuple[Untrained, ...] | None = None
    compiled: bool | None = None
    """Whether a module is compiled; compiled functions are not seen."""
    places: dict[str, tuple[str, int]] | None = None
    """File and line where the user's code sets something, by the function (``set_num_threads``),
    the switch (``mkldnn.enabled``) or the variable (``OMP_NUM_THREADS``)."""

    def place(self, *names: str) -> Place | None:
        """The place of the first of ``names`` that the user's code sets."""
        places = self.places or {}
        source = next((places[name] for name in names if name in places), None)
        return Place(file=source[0], line=source[1]) if source else None


_forms = cache(get_type_hints)
"""Type hints by class, cached: without that, a tenth of judging a live run."""


def fields_of(kind: type, data: Mapping[str, Any]) -> dict[str, Any]:
    """Keyword arguments for class ``kind`` from ``data``; values of another version's form are
    dropped."""
    fields = {}
    for name, form in _forms(kind).items():
        with suppress(msgspec.ValidationError):
            fields[name] = msgspec.convert(data.get(name), form)
    return fields


@fact
def settings(facts: Facts) -> Settings:
    """How the rank's training is set up; nothing of it is known before its agent noted that, and of
    a trace alone."""
    noted = notes_of(facts.events, "settings")
    return Settings(**fields_of(Settings, noted[-1])) if noted else Settings()
