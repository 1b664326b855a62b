"""A torch whose clock moves only by what its operators would take."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace

COPY, MEMORY = 25e9, 3e12
"""Bytes per second between host and device, and of the device's memory."""

PRODUCTS = {
    ("float32", "highest"): 60e12,
    ("float32", "high"): 400e12,
    ("bfloat16", "highest"): 7e14,
}
"""Operations per second by data type and precision."""

HALF = 6e14
"""Those of float16."""

CARD = "NVIDIA Made-up 80GB"


@dataclass
class Tensor:
    """So many elements of a type on a device."""

    torch: PlayedTorch
    shape: tuple[int, ...]
    dtype: str
    device: str

    def numel(self) -> int:
        count = 1
        for size in self.shape:
            count *= size
        return count

    def to(self, dtype: str) -> Tensor:
        return Tensor(self.torch, self.shape, dtype, self.device)

    def pin_memory(self) -> Tensor:
        self.torch.pinned += 1
        return self

    def copy_(self, source: Tensor, **_: bool) -> None:
        size = self.numel() * (1 if self.dtype == "uint8" else 4)
        both = self.device == source.device
        self.torch.clock += 2 * size / MEMORY if both else size / COPY


@dataclass
class PlayedTorch:
    """What ``torch_work`` asks of torch."""

    capability: tuple[int, int] = (9, 0)
    free: int = 80 << 30
    clock: float = 100.0
    pinned: int = 0
    precision: str = "highest"
    products: list[tuple[str, str]] = field(default_factory=list)
    uint8 = "uint8"
    float32 = "float32"
    bfloat16 = "bfloat16"
    float16 = "float16"
    __version__ = "2.9.0+played"

    def __post_init__(self) -> None:
        self.version = SimpleNamespace(hip=None)
        self.cuda = SimpleNamespace(
            is_available=lambda: True,
            get_device_name=lambda _: CARD,
            get_device_capability=lambda _: self.capability,
            mem_get_info=lambda: (self.free, self.free),
            synchronize=lambda: None,
        )

    def perf_counter(self) -> float:
        return self.clock

    def ones(self, size: int, dtype: str, device: str = "cpu") -> Tensor:
        return Tensor(self, (size,), dtype, device)

    def ones_like(self, other: Tensor) -> Tensor:
        return other.to(other.dtype)

    empty_like = ones_like

    def randn(self, rows: int, columns: int, device: str) -> Tensor:
        return Tensor(self, (rows, columns), "float32", device)

    def set_float32_matmul_precision(self, precision: str) -> None:
        self.precision = precision

    def mm(self, one: Tensor, *_: Tensor, **__: Tensor) -> None:
        kind = (one.dtype, self.precision)
        self.products.append(kind)
        self.clock += 2 * one.shape[0] ** 3 / PRODUCTS.get(kind, HALF)
