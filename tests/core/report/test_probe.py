"""What `perftui probe` prints."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from perftui.probe.ceilings import Ceiling, Ceilings, NotMeasured, rate_of
from perftui.report.machine import probe_object, probe_text
from tests.described import described

FOUND = Ceilings(
    host="node7",
    measured_ns=1_700_000_000_000_000_000,
    rates=(
        rate_of(
            Ceiling.DISK_READ,
            "B/s",
            [[2.1e9] * 5, [1.9e9] * 5, [2e9] * 5],
            "40 files of 4.0 GiB, ext4, past the page cache (O_DIRECT)",
        ),
        rate_of(Ceiling.TO_DEVICE_PAGEABLE, "B/s", [[9.87e9]] * 3, "copies of 128 MiB"),
        rate_of(Ceiling.BFLOAT16, "FLOP/s", [[7.123e14]] * 3, "products of 8192 x 8192"),
    ),
    gpu="NVIDIA H100 80GB HBM3",
    driver="580.65.06",
    torch="2.9.0",
    path="/data",
    not_measured=(NotMeasured(Ceiling.TF32, "CUDA out of memory"),),
)


def test_rates_have_units_spread_and_how_they_were_measured() -> None:
    assert probe_text(FOUND, Path("/cache/a.json")) == (
        "node7: NVIDIA H100 80GB HBM3, driver 580.65.06, torch 2.9.0, measured\n"
        "2023-11-14\n"
        "\n"
        "rate                            at most   spread  how\n"
        "disk read                      2.1 GB/s    9.5 %  40 files of 4.0 GiB, ext4,\n"
        "                                                  past the page cache\n"
        "                                                  (O_DIRECT); 15 times\n"
        "host to device, pageable       9.9 GB/s      0 %  copies of 128 MiB; 3 times\n"
        "matrix, bfloat16            712 TFLOP/s      0 %  products of 8192 x 8192; 3\n"
        "                                                  times\n"
        "matrix, TF32: not measured: CUDA out of memory\n"
        "kept in /cache/a.json\n"
    )


def test_a_busy_machine_can_do_more_than_was_measured() -> None:
    busy = replace(FOUND, others=1.4, cores=8)
    assert "Other programs used 1.4 of 8 cores meanwhile: measure again" in probe_text(busy, None)
    assert described("probe", probe_object(busy, None))["disturbed"]
    quiet = replace(FOUND, others=0.8, cores=8)
    assert "Other programs" not in probe_text(quiet, None)
    assert not described("probe", probe_object(quiet, None))["disturbed"]


def test_programs_get_rates_per_second() -> None:
    found = described("probe", probe_object(FOUND, None))
    assert (found["gpu"], found["kept"]) == ("NVIDIA H100 80GB HBM3", None)
    assert found["rates"][0] == {
        "name": "disk read",
        "unit": "B/s",
        "value": 2.1e9,
        "low": 1.9e9,
        "repeats": 15,
        "how": "40 files of 4.0 GiB, ext4, past the page cache (O_DIRECT)",
    }
    assert found["not_measured"] == [{"name": "matrix, TF32", "reason": "CUDA out of memory"}]
