"""All rows about this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from perftui.doctor import gpu, interpreter, machine
from perftui.doctor.interpreter import COMPILED, AskError, Interpreter, ask
from perftui.doctor.row import ROOT, Row, unknown, worst_first
from perftui.recorder.pyspy import find_pyspy


def examine(python: str, runs: Path, more: tuple[Row, ...] = ()) -> tuple[Row, ...]:
    """What is found for trainings of the interpreter ``python`` whose runs are kept in ``runs``,
    and ``more``; worst first."""
    driver = gpu.driver_of()
    try:
        found: Interpreter | AskError = ask(python)
    except AskError as error:
        found = error
    rows = (
        interpreter.python_row(python, found),
        *_of_interpreter(found, driver),
        machine.writable_row(runs),
        machine.file_system_row(runs),
        machine.free_disk_row(runs),
        interpreter.scope_row(),
        _pyspy(python, found),
        *_of_gpu(found, driver, os.environ),
        *of_machine(os.environ),
        gpu.nsys_row(),
        gpu.ncu_row(),
        *more,
    )
    return worst_first(rows)


def _of_interpreter(found: Interpreter | AskError, driver: gpu.Driver) -> tuple[Row, ...]:
    if isinstance(found, AskError):
        why = "the interpreter does not run"
        return tuple(unknown(topic, why) for topic in ("torch", "agent", "sitecustomize"))
    return (
        interpreter.torch_row(found, has_gpu=driver.is_there),
        interpreter.agent_row(found, is_built=COMPILED.exists()),
        interpreter.sitecustomize_row(found),
    )


def _pyspy(python: str, found: Interpreter | AskError) -> Row:
    attempt = None if isinstance(found, AskError) else interpreter.try_pyspy(python)
    return interpreter.pyspy_row(find_pyspy(), attempt)


def _of_gpu(
    found: Interpreter | AskError, driver: gpu.Driver, base: Mapping[str, str]
) -> tuple[Row, ...]:
    nvml = gpu.ask_nvml()
    library = (
        unknown("CUPTI", "the interpreter does not run")
        if isinstance(found, AskError)
        else gpu.library_row(found, driver, nvml, base)
    )
    return (
        gpu.driver_row(driver),
        gpu.nvml_row(driver, nvml),
        library,
        gpu.counters_row(driver),
        gpu.other_profilers_row(driver, base),
    )


def of_machine(base: Mapping[str, str], root: Path = ROOT) -> tuple[Row, ...]:
    """The rows about the machine itself, and what this process may use of it."""
    return (
        machine.container_row(base, root),
        machine.wsl_row(root),
        machine.clock_row(root),
        machine.cores_row(machine.cores_of(root)),
        machine.memory_row(machine.memory_of(root)),
        machine.shared_memory_row(*machine.shared_memory()),
        machine.files_row(machine.open_files()),
    )
