"""What `perftui doctor` prints."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from perftui.doctor.row import Row, State, fails, ok, unknown, warn, worst_first
from perftui.report.machine import doctor_object, doctor_text
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


def test_programs_get_the_same() -> None:
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
