"""Reports of real memory snapshots and of real metrics: shown parts sum to what is shown whole."""

from __future__ import annotations

import re

import pytest

from perftui.report.kind import Kind, kind_of
from perftui.report.special import special_report
from tests.described import described
from tests.verify.corpus.collection import ROOT

pytestmark = [pytest.mark.corpus, pytest.mark.slow]

SNAPSHOTS = sorted((ROOT / "memsnap").glob("*.pickle"))
METRICS = sorted((ROOT / "ncu-csv").glob("*.csv"))


@pytest.mark.parametrize("path", SNAPSHOTS, ids=lambda path: path.name[:14])
def test_shares_of_a_snapshot_sum_to_the_whole(path) -> None:
    assert kind_of(path) is Kind.MEMORY_SNAPSHOT
    text = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)
    tables = [
        [float(share) for share in re.findall(r"([\d.]+) %$", block, re.MULTILINE)]
        for block in text.split("\n\n")
        if block.startswith(("Device", "Held"))
    ]
    *with_whole, categories = tables
    assert len(with_whole) == 3
    assert round(sum(categories), 1) == 100.0
    for *parts, whole in with_whole:
        assert round(sum(parts), 1) == whole == 100.0
    (device,) = described("report", special_report(path, Kind.MEMORY_SNAPSHOT, as_json=True))[
        "devices"
    ]
    assert sum(device["parts"].values()) == device["reserved"]
    held = sum(each["bytes"] for each in device["sites"])
    assert held == device["parts"]["held by the program"] <= device["peak"]["bytes"]
    assert sum(each["bytes"] for each in device["peak"]["sites"]) == device["peak"]["bytes"]


@pytest.mark.parametrize("path", METRICS, ids=lambda path: path.name)
def test_every_launch_is_in_the_report_of_its_kernels(path) -> None:
    assert kind_of(path) is Kind.KERNEL_METRICS
    told = described("report", special_report(path, Kind.KERNEL_METRICS, as_json=True))
    assert sum(row["figures"]["launches"] for row in told["rows"]) == told["launches"] > 0
    for figures in (row["figures"] for row in told["rows"]):
        measured = figures["compute"] is not None and figures["memory"] is not None
        assert (figures["limit"] is not None) == measured
