"""Where the user's code sets what slows or speeds up a whole training.

Nothing listens for it: the byte code that is loaded already is read, once.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from dis import get_instructions
from pathlib import Path
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from ..hooks.call_site import hidden_directories

CALLS = frozenset(
    {
        "set_num_threads",
        "set_num_interop_threads",
        "sched_setaffinity",
        "cpu_affinity",
        "set_default_dtype",
        "set_float32_matmul_precision",
        "set_flush_denormal",
        "use_deterministic_algorithms",
        "set_detect_anomaly",
        "detect_anomaly",
        "emit_nvtx",
    }
)
"""Functions of torch, ``os`` and psutil."""

SWITCHES = frozenset(
    {
        "mkldnn.enabled",
        "cudnn.enabled",
        "cudnn.benchmark",
        "cudnn.deterministic",
        "cudnn.allow_tf32",
        "matmul.allow_tf32",
    }
)
"""Attributes that are assigned to, with the name before them."""

_FLAGS = {"flags": "enabled", "set_flags": "enabled"}
"""Functions that set several switches, and the one that they are called for here."""

_SET = frozenset({*_FLAGS, *(switch.partition(".")[2] for switch in SWITCHES)})
"""Names that a function which sets a switch has."""

_READERS = "get", "getenv"
"""Functions that only read a variable of the environment."""

MOST_CODE = 4000
"""Functions that are looked at."""

Places = dict[str, list[Any]]


def call_places(variables: frozenset[str]) -> Places:
    """File and line by name, of ``CALLS``, ``SWITCHES`` and ``variables`` of the environment; the
    first found, beginning with the script itself."""
    sought = CALLS | variables
    names = sought | _SET
    found: Places = {}
    for number, code in enumerate(_nested(_user_code())):
        if number >= MOST_CODE:
            break
        if not names.isdisjoint(code.co_names) or _has(code, sought):
            for name, line in _uses(code, sought):
                found.setdefault(name, [os.path.realpath(code.co_filename), line])
    return found


def _user_code() -> Iterator[CodeType]:
    """Code of the functions on the stack, the outermost first, and of those in modules."""
    hidden = (*hidden_directories(), str(Path(os.__file__).parent) + os.sep, "<")
    stack = []
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        stack.append(frame.f_code)
        frame = frame.f_back
    for code in reversed(stack):
        if _is_own(code.co_filename, hidden):
            yield code
    for module in list(sys.modules.values()):
        # Asked like this, a module that is loaded at its first use stays unloaded.
        names = _dict_of(module) if issubclass(type(module), ModuleType) else {}
        file = names.get("__file__")
        if isinstance(file, str) and _is_own(file, hidden):
            yield from _functions(names, names.get("__name__"))


def _functions(names: dict[str, Any], module: Any) -> Iterator[CodeType]:
    for value in list(names.values()):
        if type(value) is FunctionType:
            yield value.__code__
        elif type(value) is type and value.__module__ == module:
            methods = list(vars(value).values())
            yield from (one.__code__ for one in methods if type(one) is FunctionType)


def _dict_of(module: Any) -> dict[str, Any]:
    names: dict[str, Any] = object.__getattribute__(module, "__dict__")
    return names


def _is_own(file: str, hidden: tuple[str, ...]) -> bool:
    installed = f"{os.sep}site-packages{os.sep}", f"{os.sep}dist-packages{os.sep}"
    return not file.startswith(hidden) and not any(part in file for part in installed)


def _nested(codes: Iterable[CodeType]) -> Iterator[CodeType]:
    """``codes`` and the functions defined in them, each once."""
    seen: set[int] = set()
    for code in codes:
        waiting = [code]
        while waiting:
            one = waiting.pop()
            if id(one) not in seen:
                seen.add(id(one))
                yield one
                waiting += [each for each in one.co_consts if type(each) is CodeType]


def _has(code: CodeType, sought: frozenset[str]) -> bool:
    return any(
        (type(one) is str and one in sought)
        or (type(one) is tuple and any(type(each) is str and each in sought for each in one))
        for one in code.co_consts
    )


def _uses(code: CodeType, sought: frozenset[str]) -> Iterator[tuple[str, int]]:
    lines = iter(code.co_lines())
    end, line = 0, None
    before = None
    for instruction in get_instructions(code):
        while instruction.offset >= end:
            _, end, line = next(lines)
        value = instruction.argval
        if instruction.opname == "KW_NAMES" and instruction.arg is not None:
            # Python 3.11 gives the number only.
            value = code.co_consts[instruction.arg]
        if instruction.opname == "STORE_ATTR" or value in _FLAGS:
            switch = f"{before}.{_FLAGS.get(value, value)}"
            if switch in SWITCHES and line:
                yield switch, line
        elif type(value) is str and value in sought and line and before not in _READERS:
            yield value, line
        elif type(value) is tuple and line:
            # Names of arguments: ``os.environ.update(OMP_NUM_THREADS="1")``.
            yield from ((one, line) for one in value if type(one) is str and one in sought)
        before = value
