"""What `perftui doctor` and `perftui probe` print."""

from dataclasses import replace
from pathlib import Path

from hypothesis import given
from hypothesis import strategies as st

from perftui.doctor.row import Row, State, fails, ok, unknown, warn, worst_first
from perftui.probe.ceilings import Ceiling, Ceilings, NotMeasured, rate_of
from perftui.report.machine import doctor_object, doctor_text, probe_object, probe_text
from tests.described import described

ROWS = (
    ok("python", "3.11.7, /env/bin/python"),
    warn("ptrace", "kernel.yama.ptrace_scope is 2", "Set it to 1."),
    unknown("clock", "the system does not report its clock source"),
    fails("torch", "2.3.1", "Install PyTorch 2.4 or newer there."),
    warn("cores", "64 cores: affinity allows 4", "Ask for more."),
)


def test_what_fails_comes_first_and_the_rest_stays_in_order() -> None:
    assert doctor_text(worst_first(ROWS)) == (
        "fails    torch            2.3.1\n"
        "                          Install PyTorch 2.4 or newer there.\n"
        "warn     ptrace           kernel.yama.ptrace_scope is 2\n"
        "                          Set it to 1.\n"
        "warn     cores            64 cores: affinity allows 4\n"
        "                          Ask for more.\n"
        "unknown  clock            the system does not report its clock source\n"
        "ok       python           3.11.7, /env/bin/python\n"
        "1 fails, 2 warn, 1 unknown, 1 ok\n"
    )


def test_programs_get_the_same_of_the_doctor() -> None:
    found = described("doctor", doctor_object(worst_first(ROWS), "/env/bin/python"))
    assert (found["fails"], found["python"]) == (1, "/env/bin/python")
    assert found["rows"][0] == {
        "topic": "torch",
        "state": "fails",
        "found": "2.3.1",
        "advice": "Install PyTorch 2.4 or newer there.",
    }
    assert found["rows"][-1]["advice"] is None


@given(st.text(min_size=1), st.text(), st.sampled_from(State))
def test_nothing_is_wider_than_a_terminal_or_acts_on_it(
    found: str, advice: str, state: State
) -> None:
    out = doctor_text((Row("other profilers", state, found, advice),))
    assert all(len(line) < 80 for line in out.splitlines())
    assert "\x1b" not in out


MEASURED = Ceilings(
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
    assert probe_text(MEASURED, Path("/cache/a.json")) == (
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
    busy = replace(MEASURED, others=1.4, cores=8)
    assert "Other programs used 1.4 of 8 cores meanwhile: measure again" in probe_text(busy, None)
    assert described("probe", probe_object(busy, None))["disturbed"]
    quiet = replace(MEASURED, others=0.8, cores=8)
    assert "Other programs" not in probe_text(quiet, None)
    assert not described("probe", probe_object(quiet, None))["disturbed"]


def test_programs_get_rates_per_second() -> None:
    found = described("probe", probe_object(MEASURED, None))
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
