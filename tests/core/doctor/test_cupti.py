"""Rows about CUPTI: its library, its counters, and other profilers."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from perftui.doctor.gpu import Driver, Nvml, counters_row, library_row, other_profilers_row
from perftui.doctor.row import PERFMON, SYS_ADMIN, State
from tests.core.doctor.trees import DRIVER, GOOD, NO_DRIVER, capable, tree

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
    row = library_row(torch, DRIVER, Nvml(("H100",), known), {})
    assert row.state is state
    assert words in f"{row.found} {row.advice}"


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
    row = other_profilers_row(driver, environment, root)
    assert row.state is state
    assert words in f"{row.found} {row.advice}"


def test_without_proc_other_profilers_are_unknown(tmp_path: Path) -> None:
    assert other_profilers_row(DRIVER, {}, tmp_path).state is State.UNKNOWN
