"""All rows about this machine."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from perftui.doctor import cupti, environment, gpu, limits, ptrace, run_directory, system, tools
from perftui.doctor.files import ROOT
from perftui.doctor.interpreter import COMPILED, AskError, Interpreter, ask
from perftui.doctor.row import Row, unknown, worst_first
from perftui.recorder.stacks.pyspy import find_pyspy


def examine(python: str, runs: Path, more: tuple[Row, ...] = ()) -> tuple[Row, ...]:
    """What is found for trainings of the interpreter ``python`` whose runs are kept in ``runs``,
    and ``more``; worst first."""
    driver = gpu.driver_of()
    try:
        found: Interpreter | AskError = ask(python)
    except AskError as error:
        found = error
    rows = (
        environment.python_row(python, found),
        *_of_interpreter(found, driver),
        run_directory.writable_row(runs),
        run_directory.file_system_row(runs),
        run_directory.free_disk_row(runs),
        ptrace.scope_row(),
        _pyspy(python, found),
        *_of_gpu(found, driver, os.environ),
        *of_machine(os.environ),
        tools.nsys_row(),
        tools.ncu_row(),
        *more,
    )
    return worst_first(rows)


def _of_interpreter(found: Interpreter | AskError, driver: gpu.Driver) -> tuple[Row, ...]:
    if isinstance(found, AskError):
        why = "the interpreter does not run"
        return tuple(unknown(topic, why) for topic in ("torch", "agent", "sitecustomize"))
    return (
        environment.torch_row(found, has_gpu=driver.is_there),
        environment.agent_row(found, is_built=COMPILED.exists()),
        environment.sitecustomize_row(found),
    )


def _pyspy(python: str, found: Interpreter | AskError) -> Row:
    attempt = None if isinstance(found, AskError) else ptrace.try_pyspy(python)
    return ptrace.pyspy_row(find_pyspy(), attempt)


def _of_gpu(
    found: Interpreter | AskError, driver: gpu.Driver, base: Mapping[str, str]
) -> tuple[Row, ...]:
    nvml = gpu.ask_nvml()
    library = (
        unknown("CUPTI", "the interpreter does not run")
        if isinstance(found, AskError)
        else cupti.library_row(found, driver, nvml, base)
    )
    return (
        gpu.driver_row(driver),
        gpu.nvml_row(driver, nvml),
        library,
        cupti.counters_row(driver),
        cupti.other_profilers_row(driver, base),
    )


def of_machine(base: Mapping[str, str], root: Path = ROOT) -> tuple[Row, ...]:
    """The rows about the machine itself, and what this process may use of it."""
    return (
        system.container_row(base, root),
        system.wsl_row(root),
        system.clock_row(root),
        limits.cores_row(limits.cores_of(root)),
        limits.memory_row(limits.memory_of(root)),
        limits.shared_memory_row(*limits.shared_memory()),
        limits.files_row(limits.open_files()),
    )
