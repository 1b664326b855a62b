"""Real reports of ncu as CSV, against what ncu printed of each kernel."""

import math
import re
from functools import cache
from typing import Any

import pytest

from perftui.analysis.kernels.metrics import Limit, limit_of
from perftui.report.kind import Kind, kind_of
from perftui.report.snapshots_and_ncu import special_report
from perftui.trace.ncu import KernelMetrics, Launch, is_ncu, load_ncu, number
from tests.described import described
from tests.verify.corpus.collection import ROOT, expected
from tests.verify.corpus.outcome import MET, Account, not_shown

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

ENTRIES = [entry for entry in expected() if entry["quantity"].startswith("ncu.")]
FILES = sorted({entry["trace"] for entry in ENTRIES})

NAME_CUT = 120
"""The expected values hold so many characters of a name."""


@cache
def loaded(trace: str, page: str) -> KernelMetrics:
    name = trace.removesuffix(".ncu-rep").replace("/", "_")
    return load_ncu(ROOT / "ncu-csv" / f"{name}.{page}.csv")


@pytest.mark.parametrize(
    "entry", ENTRIES, ids=lambda entry: f"{entry['trace']}-{entry['quantity']}"
)
def test_every_expected_value(entry: dict[str, Any], account: Account) -> None:
    metrics = loaded(entry["trace"], "details")
    quantity, value = entry["quantity"], entry["value"]
    if quantity == "ncu.kernel_count":
        assert len(metrics) == value
        assert len(loaded(entry["trace"], "raw")) == value
    elif quantity == "ncu.cc":
        account(entry, not_shown("the compute capability"))
        return
    else:
        match = re.fullmatch(r"ncu\.kernel\[(\d+)\]", quantity)
        _compare(metrics.launches[int(match[1])], value)
    account(entry, MET)


SHOWN = {
    "Duration": (
        "duration",
        {"usecond": 1000, "us": 1000, "msecond": 10**6, "ns": 1, "nsecond": 1},
    ),
    "Compute (SM) Throughput": ("compute_throughput", {"%": 1}),
    "Memory Throughput": ("memory_throughput", {"%": 1}),
    "Achieved Occupancy": ("achieved_occupancy", {"%": 1}),
}


def _compare(launch: Launch, value: dict[str, Any]) -> None:
    assert launch.name[:NAME_CUT] == value["name"][:NAME_CUT]
    for name, (text, unit) in ((key, each) for key, each in value.items() if key in SHOWN):
        field, factors = SHOWN[name]
        if unit in factors:
            assert getattr(launch, field) == number(text, ".", factors[unit])


@pytest.mark.parametrize("trace", FILES)
def test_both_pages_agree_to_the_printed_digits(trace: str) -> None:
    pairs = zip(loaded(trace, "details").launches, loaded(trace, "raw").launches, strict=True)
    for details, raw in pairs:
        assert details.name == raw.name
        for quantity in ("compute_throughput", "memory_throughput", "achieved_occupancy"):
            _agree(getattr(details, quantity), getattr(raw, quantity), 0.005)
        _agree(details.duration, raw.duration, (raw.duration or 0) * 0.005)


def _agree(printed: float | None, exact: float | None, tolerance: float) -> None:
    assert (printed is None) == (exact is None)
    if printed is not None and exact is not None:
        assert math.isclose(printed, exact, rel_tol=0, abs_tol=tolerance + 1e-9)


@pytest.mark.parametrize("trace", FILES)
def test_what_limits_a_kernel_agrees_with_the_rule_of_ncu(trace: str) -> None:
    name = trace.removesuffix(".ncu-rep").replace("/", "_")
    text = (ROOT / "ncu-csv" / f"{name}.details.csv").read_text()
    said = dict(re.findall(r'^"(\d+)",.*"SOLBottleneck","\w+","(.*?)",', text, re.MULTILINE))
    assert said
    ids = dict.fromkeys(re.findall(r'^"(\d+)",', text, re.MULTILINE))
    for number_, launch in zip(ids, loaded(trace, "raw").launches, strict=True):
        limit = limit_of(launch.compute_throughput, launch.memory_throughput)
        words = said.get(number_, "")
        if "well-balanced" in words:
            assert limit is Limit.BOTH
        elif "latency issues" in words or "too small to fill" in words:
            assert limit is Limit.LATENCY
        elif "Start by analyzing" in words:
            assert limit in {Limit.COMPUTE, Limit.MEMORY, Limit.BOTH}


@pytest.mark.parametrize("trace", FILES)
def test_pages_and_reports_are_known_by_their_first_bytes(trace: str) -> None:
    name = trace.removesuffix(".ncu-rep").replace("/", "_")
    for path in (ROOT / trace, *(ROOT / "ncu-csv").glob(f"{name}.*.csv")):
        with path.open("rb") as file:
            assert is_ncu(file.read(1024)), path


@pytest.mark.parametrize(
    "path", sorted((ROOT / "ncu-csv").glob("*.csv")), ids=lambda path: path.name
)
def test_every_launch_is_in_the_report_of_its_kernels(path) -> None:
    assert kind_of(path) is Kind.KERNEL_METRICS
    told = described("report", special_report(path, Kind.KERNEL_METRICS, as_json=True))
    assert sum(row["figures"]["launches"] for row in told["rows"]) == told["launches"] > 0
    for figures in (row["figures"] for row in told["rows"]):
        measured = figures["compute"] is not None and figures["memory"] is not None
        assert (figures["limit"] is not None) == measured
