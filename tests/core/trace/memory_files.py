"""Memory snapshots of a made-up allocator, in the layouts that torch has used."""

from dataclasses import dataclass, field
from typing import Any

Tree = dict[str, Any]

TORCH = "/venv/lib/python3.12/site-packages/torch/nn/modules/module.py"


def frames(line: int) -> list[Tree]:
    """A stack as torch records it: C++, torch's Python, the user's line, its caller."""
    return [
        {"name": "torch::unwind::unwind()", "filename": "??", "line": 0},
        {"name": "malloc", "filename": "CUDACachingAllocator.cpp", "line": 0},
        {"name": "_call_impl", "filename": TORCH, "line": 1750},
        {"name": "forward", "filename": "/home/user/model.py", "line": line},
        {"name": "<module>", "filename": "/home/user/train.py", "line": 3},
    ]


def rounded(size: int) -> int:
    """As the allocator rounds small sizes."""
    return -(-size // 512) * 512


@dataclass
class Allocator:
    """Hands out addresses once each, and keeps the books that a snapshot is made of."""

    device: int = 0
    recording: bool = True
    held: dict[int, tuple[int, int]] = field(default_factory=dict)
    """Size and line by address."""
    events: list[Tree] = field(default_factory=list)
    following: int = 1 << 40
    clock: int = 1_700_000_000_000_000
    stacks: dict[int, list[Tree]] = field(default_factory=dict)

    def alloc(self, size: int, line: int) -> int:
        address = self.following
        self.following += rounded(size) or 512
        self.held[address] = (size, line)
        self._record("alloc", address, size, line)
        return address

    def free(self, address: int) -> None:
        size, line = self.held.pop(address)
        self._record("free_requested", address, size, line)
        self._record("free_completed", address, size, line)

    def again(self, address: int, size: int, line: int) -> None:
        """The same address handed out once more."""
        self.held[address] = (size, line)
        self._record("alloc", address, size, line)

    def _record(self, action: str, address: int, size: int, line: int) -> None:
        self.clock += 7
        if self.recording:
            event = {"action": action, "addr": address, "size": size, "stream": 0}
            stack = self.stacks.setdefault(line, frames(line))
            self.events.append({**event, "time_us": self.clock, "frames": stack})

    def segment(self) -> Tree:
        """One segment around everything that was ever handed out."""
        start = 1 << 40
        blocks = []
        at = start
        for address, (size, line) in sorted(self.held.items()):
            if address > at:
                blocks.append(self._block(at, address - at, 0, "inactive", []))
            blocks.append(
                self._block(address, rounded(size) or 512, size, "active_allocated", frames(line))
            )
            at = address + (rounded(size) or 512)
        if self.following > at:
            blocks.append(self._block(at, self.following - at, 0, "inactive", []))
        held = sum(block["size"] for block in blocks if block["state"] != "inactive")
        return {
            "device": self.device,
            "address": start,
            "total_size": self.following - start,
            "allocated_size": held,
            "active_size": held,
            "stream": 0,
            "segment_type": "large",
            "is_expandable": False,
            "frames": [],
            "blocks": blocks,
        }

    def _block(self, address: int, size: int, asked: int, state: str, stack: list[Tree]) -> Tree:
        return {
            "address": address,
            "size": size,
            "requested_size": asked,
            "state": state,
            "frames": stack,
        }


def snapshot(*allocators: Allocator) -> Tree:
    """What ``torch.cuda.memory._snapshot`` returns."""
    return {
        "segments": [each.segment() for each in allocators],
        "device_traces": [each.events for each in allocators],
        "allocator_settings": {
            "PYTORCH_CUDA_ALLOC_CONF": "",
            "max_split_size": -1,
            "expandable_segments": False,
            "roundup_power2_divisions": {"1": 0, "2": 4},
        },
        "external_annotations": [],
    }
