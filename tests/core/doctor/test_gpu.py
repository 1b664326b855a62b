"""Rows about the card, its driver and NVML."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from perftui.doctor.gpu import Driver, Nvml, ask_nvml, driver_of, driver_row, nvml_row
from perftui.doctor.row import State
from tests.core.doctor.trees import DRIVER, NO_DRIVER, tree

VERSION = "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.65.06  Release Build\n"
OLDER = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.129.03  Thu Oct 19 18:56:32 UTC 2023\n"
CARD = {
    "sys/bus/pci/devices/0000:01:00.0/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:01:00.0/class": "0x030200\n",
    # Its sound, and the display of another maker.
    "sys/bus/pci/devices/0000:01:00.1/vendor": "0x10de\n",
    "sys/bus/pci/devices/0000:01:00.1/class": "0x040300\n",
    "sys/bus/pci/devices/0000:02:00.0/vendor": "0x1002\n",
    "sys/bus/pci/devices/0000:02:00.0/class": "0x030000\n",
}


@pytest.mark.parametrize(
    ("files", "found", "state", "words"),
    [
        (
            {"proc/driver/nvidia/version": VERSION, "dev/nvidia0": "", "dev/nvidia1": "", **CARD},
            Driver("580.65.06", 1, 2, on_wsl=False),
            State.OK,
            "580.65.06, 2 GPUs",
        ),
        (
            {"proc/driver/nvidia/version": OLDER, "dev/nvidiactl": "", "dev/nvidia-uvm": ""},
            Driver("535.129.03", 0, 0, on_wsl=False),
            State.WARN,
            "has no GPU",
        ),
        (CARD, Driver(None, 1, 0, on_wsl=False), State.FAILS, "no driver"),
        ({}, NO_DRIVER, State.OK, "no NVIDIA GPU"),
        ({"dev/dxg": ""}, Driver(None, 0, 0, on_wsl=True), State.OK, "Windows"),
    ],
    ids=["two cards", "none given", "no driver", "no card", "WSL"],
)
def test_the_driver_is_read_from_proc_and_the_bus(
    tmp_path: Path, files: dict[str, str], found: Driver, state: State, words: str
) -> None:
    driver = driver_of(tree(tmp_path, files))
    assert driver == found
    row = driver_row(driver)
    assert (row.state, words in row.found) == (state, True)


def fake_nvml(count: int = 2, version: int = 12080) -> Any:
    class NVMLError(Exception):
        pass

    return SimpleNamespace(
        NVMLError=NVMLError,
        nvmlInit=lambda: None,
        nvmlDeviceGetCount=lambda: count,
        nvmlDeviceGetHandleByIndex=lambda n: n,
        nvmlDeviceGetName=lambda _: "NVIDIA H100 80GB HBM3",
        nvmlSystemGetCudaDriverVersion=lambda: version,
    )


def test_nvml_names_cards_and_the_cuda_of_the_driver() -> None:
    found = ask_nvml(fake_nvml())
    assert found == Nvml(("NVIDIA H100 80GB HBM3",) * 2, (12, 8))
    assert nvml_row(DRIVER, found).found == "2 x NVIDIA H100 80GB HBM3"
    assert ask_nvml(fake_nvml(version=13000)).cuda == (13, 0)


def test_nvml_is_missed_only_where_there_is_a_driver() -> None:
    problem = ask_nvml(fake_nvml(count=0))
    assert problem.problem == "NVML finds no GPU"
    assert nvml_row(NO_DRIVER, problem).state is State.OK
    row = nvml_row(DRIVER, problem)
    assert (row.state, "nvidia-smi" in row.advice) == (State.WARN, True)
