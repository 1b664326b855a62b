"""The model of the processor, as the kernel names it."""

from __future__ import annotations

import platform
from pathlib import Path

from perftui.telemetry.cpu.name import cpu_name


def test_the_first_model_is_named_without_its_padding(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: AMD  EPYC 9534 \nflags\t: a\n")
    assert cpu_name(str(tmp_path)) == "AMD EPYC 9534"


def test_the_architecture_stands_in_where_no_model_is_named(tmp_path: Path) -> None:
    (tmp_path / "cpuinfo").write_text("processor\t: 0\nmodel name\t: \n")
    assert cpu_name(str(tmp_path)) == cpu_name("/nowhere") == platform.machine()
