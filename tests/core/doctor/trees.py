"""Made-up trees of /proc, /sys and /dev."""

from collections.abc import Mapping
from pathlib import Path

from perftui.doctor.gpu import Driver
from perftui.doctor.interpreter import Interpreter
from perftui.doctor.row import Row, State

CAPABILITIES = "Name:\tpython\nCapEff:\t{:016x}\n"

DRIVER = Driver("580.65.06", 1, 1, on_wsl=False)
NO_DRIVER = Driver(None, 0, 0, on_wsl=False)

GOOD = Interpreter(
    version="3.11.7",
    executable="/env/bin/python",
    armed=True,
    other_sitecustomize=None,
    ignores_environment=False,
    compiled=True,
    torch="2.8.0+cu128",
    cuda="12.8",
    hip=None,
    cupti=("/env/nvidia/cuda_cupti/lib/libcupti.so.12",),
)


def tree(root: Path, files: Mapping[str, str]) -> Path:
    """``root`` with these files in it."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def capable(*bits: int) -> str:
    """``/proc/self/status`` of a process with these capabilities."""
    return CAPABILITIES.format(sum(1 << bit for bit in bits))


def says(row: Row, state: State, words: str) -> bool:
    """Whether ``row`` has that state and these words."""
    return row.state is state and words in f"{row.found} {row.advice}"
