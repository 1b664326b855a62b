"""NVIDIA's card, its driver and CUPTI, of file trees and answers that are made up."""

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from perftui.doctor.gpu import (
    Driver,
    Nvml,
    ask_nvml,
    counters_row,
    driver_of,
    driver_row,
    library_row,
    nvml_row,
    other_profilers_row,
)
from perftui.doctor.row import PERFMON, SYS_ADMIN, State
from tests.core.doctor.trees import DRIVER, GOOD, NO_DRIVER, capable, says, tree

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


WSL = Driver(None, 0, 0, on_wsl=True)


@pytest.mark.parametrize(
    ("cuda", "known", "state", "words"),
    [
        ("12.8", (12, 8), State.OK, "supports up to 12.8"),
        ("12.4", (13, 0), State.OK, "supports up to 13.0"),
        ("12.8", (12, 4), State.WARN, "If windows show no kernels: update the driver"),
        ("13.0", (12, 8), State.FAILS, "a build of PyTorch for CUDA 12"),
        ("12.8", None, State.UNKNOWN, "is not known"),
        (None, (12, 8), State.OK, "not built for CUDA"),
    ],
)
def test_cupti_has_to_be_no_newer_than_the_driver(
    cuda: str | None, known: tuple[int, int] | None, state: State, words: str
) -> None:
    torch = msgspec.structs.replace(GOOD, cuda=cuda)
    assert says(library_row(torch, DRIVER, Nvml(("H100",), known), {}), state, words)


def test_a_torch_without_a_library_beside_it_is_not_known(tmp_path: Path) -> None:
    torch = msgspec.structs.replace(GOOD, cupti=())
    nvml = Nvml(("H100",), (12, 8))
    assert library_row(torch, DRIVER, nvml, {}).state is State.UNKNOWN
    assert library_row(torch, NO_DRIVER, Nvml(), {}).state is State.OK
    none = msgspec.structs.replace(GOOD, torch=None, cuda=None)
    assert library_row(none, DRIVER, nvml, {}).state is State.UNKNOWN


def test_another_cupti_on_the_library_path_is_found(tmp_path: Path) -> None:
    own, strange = tmp_path / "own", tmp_path / "cuda"
    tree(tmp_path, {"own/libcupti.so.12": "", "cuda/libcupti.so.12.3": "", "lib/libc.so": ""})
    torch = msgspec.structs.replace(GOOD, cupti=(str(own / "libcupti.so.12"),))
    nvml = Nvml(("H100",), (12, 8))

    def row(*path: Path) -> State:
        words = ":".join(map(str, path))
        return library_row(torch, DRIVER, nvml, {"LD_LIBRARY_PATH": words}).state

    assert row(own, tmp_path / "lib", tmp_path / "nowhere") is State.OK
    assert row(own, strange) is State.WARN


@pytest.mark.parametrize(
    ("value", "driver", "bits", "state"),
    [
        ("0", DRIVER, (), State.OK),
        ("1", DRIVER, (), State.WARN),
        ("1", DRIVER, (SYS_ADMIN,), State.OK),
        ("1", DRIVER, (PERFMON,), State.OK),
        ("1", Driver("535.129.03", 1, 1, on_wsl=False), (PERFMON,), State.WARN),
    ],
)
def test_counters_are_for_administrators_by_default(
    tmp_path: Path, value: str, driver: Driver, bits: tuple[int, ...], state: State
) -> None:
    params = f"ResmanDebugLevel: 4294967295\nRmProfilingAdminOnly: {value}\nPreserve: 0\n"
    files = {"proc/driver/nvidia/params": params, "proc/self/status": capable(*bits)}
    assert counters_row(driver, tree(tmp_path, files)).state is state


def test_counters_are_unknown_where_the_driver_does_not_tell(tmp_path: Path) -> None:
    assert counters_row(DRIVER, tmp_path).state is State.UNKNOWN
    assert counters_row(WSL, tmp_path).state is State.UNKNOWN
    assert counters_row(NO_DRIVER, tmp_path).state is State.OK
    root = tree(tmp_path, {"proc/driver/nvidia/params": "EnableMSI: 1\n"})
    assert counters_row(DRIVER, root).state is State.UNKNOWN


@pytest.mark.parametrize(
    ("names", "environment", "driver", "state", "words"),
    [
        (["python", "bash"], {}, DRIVER, State.OK, "none"),
        (["nsys"], {}, DRIVER, State.WARN, "nsys (7)"),
        (["nv-hostengine"], {}, DRIVER, State.WARN, "dcgmi profiling --pause"),
        (["nv-hostengine"], {}, NO_DRIVER, State.OK, "none"),
        ([], {"CUDA_INJECTION64_PATH": "/a/lib.so"}, DRIVER, State.WARN, "/a/lib.so"),
    ],
)
def test_other_profilers_are_named(
    tmp_path: Path,
    names: list[str],
    environment: dict[str, str],
    driver: Driver,
    state: State,
    words: str,
) -> None:
    running = {f"proc/{7 + number}/comm": f"{name}\n" for number, name in enumerate(names)}
    root = tree(tmp_path, {"proc/self/status": capable(), **running})
    assert says(other_profilers_row(driver, environment, root), state, words)


def test_without_proc_other_profilers_are_unknown(tmp_path: Path) -> None:
    assert other_profilers_row(DRIVER, {}, tmp_path).state is State.UNKNOWN
