"""The model of the processor, as the kernel names it."""

from __future__ import annotations

import platform
from pathlib import Path

from perftui.telemetry.cpu import cpu_governor, cpu_name
from perftui.telemetry.gpu.nvml import driver_version


def test_the_first_model_is_named_without_its_padding(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD  EPYC 9534 \nflags\t: a\n")
    assert cpu_name(str(tmp_path)) == "AMD EPYC 9534"


def test_the_architecture_stands_in_where_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: \n")
    assert cpu_name(str(tmp_path)) == cpu_name("/nowhere") == platform.machine()


def test_the_governor_and_the_driver_are_read_where_there_are_any(tmp_path: Path) -> None:
    assert (cpu_governor(str(tmp_path)), driver_version(str(tmp_path))) == ("", None)
    policy = tmp_path / "devices/system/cpu/cpu0/cpufreq"
    policy.mkdir(parents=True)
    (policy / "scaling_governor").write_text("powersave\n")
    (tmp_path / "driver/nvidia").mkdir(parents=True)
    version = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  580.65.06  Sun Jul 27 2025"
    (tmp_path / "driver/nvidia/version").write_text(f"{version}\nGCC version: 12.3.0\n")
    assert (cpu_governor(str(tmp_path)), driver_version(str(tmp_path))) == (
        "powersave",
        "580.65.06",
    )
