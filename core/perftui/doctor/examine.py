"""All rows about this machine."""

from __future__ import annotations

import os
import resource
from pathlib import Path

from perftui.doctor import gpu, interpreter, machine
from perftui.doctor.row import Row, unknown, worst_first
from perftui.recorder.pyspy import find_pyspy


def examine(python: str, runs: Path, more: tuple[Row, ...] = ()) -> tuple[Row, ...]:
    """What is found for trainings of the interpreter ``python`` whose runs are kept in ``runs``,
    and ``more``; worst first."""
    driver, nvml, base = gpu.driver_of(), gpu.ask_nvml(), os.environ
    try:
        found = interpreter.ask(python)
    except interpreter.AskError as error:
        why = "the interpreter does not run"
        of_python = [interpreter.python_row(python, error)]
        of_python += [unknown(topic, why) for topic in ("torch", "agent", "sitecustomize", "CUPTI")]
        attempt = None
    else:
        of_python = [
            interpreter.python_row(python, found),
            interpreter.torch_row(found, has_gpu=driver.is_there),
            interpreter.agent_row(found, is_built=interpreter.COMPILED.exists()),
            interpreter.sitecustomize_row(found),
            gpu.library_row(found, driver, nvml, base),
        ]
        attempt = interpreter.try_pyspy(python)
    rows = (
        *of_python[:-1],
        machine.writable_row(runs),
        machine.file_system_row(runs),
        machine.free_disk_row(runs),
        interpreter.scope_row(),
        interpreter.pyspy_row(find_pyspy(), attempt),
        gpu.driver_row(driver),
        gpu.nvml_row(driver, nvml),
        of_python[-1],
        gpu.counters_row(driver),
        gpu.other_profilers_row(driver, base),
        machine.container_row(base),
        machine.wsl_row(),
        machine.clock_row(),
        machine.cores_row(machine.cores_of()),
        machine.memory_row(machine.memory_of()),
        machine.shared_memory_row(*machine.shared_memory()),
        machine.files_row(resource.getrlimit(resource.RLIMIT_NOFILE)[0]),
        gpu.nsys_row(),
        gpu.ncu_row(),
        *more,
    )
    return worst_first(rows)
