"""Reports of memory snapshots and of kernel metrics: what is told of them, and what is not."""

import gzip
import pickle
import re
from collections.abc import Sequence
from pathlib import Path
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perftui.report import as_json
from perftui.report.html.page import render as html
from perftui.report.kernel_metrics import MOST_KERNELS
from perftui.report.kind import Kind, kind_of
from perftui.report.report import Report, make_report
from perftui.report.snapshots_and_ncu import (
    MOST_SITES,
    NO_STACK,
    render_memory,
    report_memory,
    special_report,
)
from perftui.report.subject import load_subject
from perftui.report.text import render
from perftui.trace.memory_pickle import load_memory_snapshot
from perftui.trace.model import TraceError
from perftui.trace.ncu import load_ncu
from tests.core.report.html.pages import cells, read, section
from tests.core.trace.memory_files import Allocator, snapshot
from tests.described import described
from tests.traces.events import Event, cpu, gpu, write

MIB = 1 << 20

Measured: TypeAlias = tuple[str, str, str, str, str]
"""Name, nanoseconds, compute, memory and occupancy as ncu prints them."""

METRICS = (
    "gpu__time_duration.sum",
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "sm__warps_active.avg.pct_of_peak_sustained_active",
)


def write_snapshot(path: Path, *allocators: Allocator) -> Path:
    """The snapshot of these allocators as torch pickles it."""
    path.write_bytes(pickle.dumps(snapshot(*allocators)))
    return path


def three_lines() -> Allocator:
    """4 MiB from line 10 before recording, 6 MiB from 20, 2 MiB from 30; 20 MiB for a moment."""
    allocator = Allocator(recording=False)
    allocator.alloc(4 * MIB, 10)
    allocator.recording = True
    allocator.alloc(6 * MIB, 20)
    moment = allocator.alloc(20 * MIB, 40)
    allocator.free(moment)
    allocator.alloc(2 * MIB - 100, 30)
    return allocator


def write_metrics(path: Path, rows: Sequence[Measured], said: str = "") -> Path:
    """The raw page of ncu, behind what the program ``said``."""
    columns = ["ID", "Process ID", "Kernel Name", "Context", "Stream", "Device", *METRICS]
    units = ["", "", "", "", "", "", "nsecond", "%", "%", "%"]
    lines = [columns, units]
    for number, (name, *values) in enumerate(rows):
        lines.append([str(number), "42", name, "1", "7", "0", *values])
    text = "\n".join(",".join(f'"{cell}"' for cell in line) for line in lines)
    path.write_text(f"{said}{text}\n")
    return path


KERNELS = (
    ("void gemm<(int)64>(float *)", "1000", "80", "30", "50"),
    ("void gemm<(int)64>(float *)", "3000", "80", "30", "50"),
    ("copy", "500", "20", "70", "n/a"),
    ("even", "400", "65", "66", "90"),
    ("tiny", "300", "1.5", "2.5", "6.25"),
    ("blind", "n/a", "n/a", "n/a", "n/a"),
)


def shares(text: str, title: str) -> list[float]:
    block = next(block for block in text.split("\n\n") if block.startswith(title))
    return [float(share) for share in re.findall(r"([\d.]+) %$", block, re.MULTILINE)]


def test_files_are_known_by_content(tmp_path: Path) -> None:
    saved = write_snapshot(tmp_path / "a.json", three_lines())
    metrics = write_metrics(tmp_path / "b.py", KERNELS, said="[rank0] step 1\n==PROF== done\n")
    wide = tmp_path / "wide.txt"
    wide.write_bytes(metrics.read_text().encode("utf-16"))
    assert kind_of(saved) is Kind.MEMORY_SNAPSHOT
    assert kind_of(metrics) is kind_of(wide) is Kind.KERNEL_METRICS
    for content, kind in (
        (saved.read_bytes(), Kind.MEMORY_SNAPSHOT),
        (pickle.dumps({"model": 1}), None),
        (b'{"traceEvents": []}', None),
        (b"", None),
    ):
        (tmp_path / "packed.json").write_bytes(gzip.compress(content))
        assert kind_of(tmp_path / "packed.json") is kind
    (tmp_path / "binary").write_bytes(b"NVR\0" + bytes(9))
    assert kind_of(tmp_path / "binary") is Kind.KERNEL_METRICS
    for content in (b"", b"import torch", b'{"traceEvents": []}', pickle.dumps({"model": 1})):
        (tmp_path / "other.pickle").write_bytes(content)
        assert kind_of(tmp_path / "other.pickle") is None
    assert kind_of(tmp_path) is None


def test_a_snapshot_is_told_by_line_and_as_whole_bytes(tmp_path: Path) -> None:
    path = write_snapshot(tmp_path / "snapshot.pickle", three_lines())
    text = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)
    assert text.startswith(f"{path}\n\nDevice 0: 32.0 MiB reserved, 12.0 MiB allocated\n")
    assert re.search(r"^  held by the program +12.0 MiB +37.5 %$", text, re.MULTILINE)
    assert re.search(r"^  kept by torch, unused +20.0 MiB +62.5 %$", text, re.MULTILINE)
    assert re.search(r"^  /home/user/model.py:20 forward +1 +6.0 MiB +50.0 %$", text, re.MULTILINE)
    assert "Peak: 30.0 MiB held, " in text
    at_peak = text[text.index("Held at the peak of 30.0 MiB, by line") :]
    assert re.search(r"^  /home/user/model.py:40 forward +1 +20.0 MiB", at_peak, re.MULTILINE)
    assert "Fragmentation: 20.0 MiB of 32.0 MiB unused\n  in 1 of 1 segment; the largest" in text
    assert "free block has 20.0 MiB" in text
    told = described("report", special_report(path, Kind.MEMORY_SNAPSHOT, as_json=True))
    assert (told["schema"], told["kind"], told["path"]) == (1, "memory_snapshot", str(path))
    (device,) = told["devices"]
    assert sum(device["parts"].values()) == device["reserved"] == 32 * MIB
    assert device["parts"]["rounding of sizes"] == 100
    assert device["parts"]["held by the program"] == 12 * MIB - 100
    held = [(each["line"], each["bytes"]) for each in device["sites"]]
    assert held == [(20, 6 * MIB), (10, 4 * MIB), (30, 2 * MIB - 100)]
    assert device["peak"]["bytes"] == sum(e["bytes"] for e in device["peak"]["sites"]) == 30 * MIB
    assert device["peak"]["after_ns"] == 7000


def test_without_a_history_the_peak_and_the_lines_are_said_to_be_unknown(tmp_path: Path) -> None:
    allocator = Allocator(recording=False)
    allocator.alloc(MIB, 10)
    tree = snapshot(allocator)
    for block in tree["segments"][0]["blocks"]:
        block["frames"] = []
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(tree))
    report = report_memory(load_memory_snapshot(path))
    (device,) = report.devices
    assert device.peak is None
    assert [each.what for each in device.sites] == [NO_STACK]
    text = render_memory(report)
    assert "device 0: no history was recorded, so its peak is not known" in text
    assert "device 0: 100 % of what is held has no stack" in text
    assert "Peak" not in text


def test_a_history_that_starts_in_the_middle_has_a_relative_peak(tmp_path: Path) -> None:
    allocator = Allocator()
    address = allocator.alloc(3 * MIB, 10)
    allocator.free(address)
    tree = snapshot(allocator)
    tree["segments"] = []
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(tree))
    report = report_memory(load_memory_snapshot(path))
    (device,) = report.devices
    assert device.peak is not None
    assert (device.peak.bytes, device.peak.absolute, device.peak.sites) == (3 * MIB, False, ())
    assert "Peak: 3.0 MiB held above the level at the start of the history" in render_memory(report)
    assert any("its peak is relative" in note for note in report.notes)


def test_sizes_that_contradict_each_other_are_said(tmp_path: Path) -> None:
    tree = snapshot(three_lines())
    tree["segments"][0]["active_size"] = 5
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(tree))
    report = report_memory(load_memory_snapshot(path))
    assert report.devices[0].parts == {}
    assert any("contradict each other" in note for note in report.notes)
    tree["segments"][0]["active_size"] = 99 * MIB
    path.write_bytes(pickle.dumps(tree))
    assert "Fragmentation" not in special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)


def test_requests_that_failed_are_reported(tmp_path: Path) -> None:
    tree = snapshot(three_lines())
    failed = {"action": "oom", "size": 7 * MIB, "stream": 0, "device_free": 3 * MIB, "frames": []}
    tree["device_traces"][0].append({**failed, "time_us": 1_700_000_000_000_900})
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps(tree))
    text = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)
    assert "Out of memory: 1 request failed\n  7.0 MiB requested, 3.0 MiB free" in text


def test_an_empty_snapshot_and_a_damaged_one_are_said(tmp_path: Path) -> None:
    path = tmp_path / "snapshot.pickle"
    path.write_bytes(pickle.dumps({"segments": [], "device_traces": []}))
    assert "no memory and no history" in special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)
    path.write_bytes(path.read_bytes()[:-3])
    with pytest.raises(TraceError, match=re.escape(str(path))):
        special_report(path, Kind.MEMORY_SNAPSHOT, as_json=False)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(1, 9_999_999), st.integers(1, 25)), min_size=1, max_size=40))
def test_shares_of_lines_sum_to_the_whole(
    tmp_path_factory: pytest.TempPathFactory, made: list[tuple[int, int]]
) -> None:
    allocator = Allocator()
    for size, line in made:
        allocator.alloc(size, line)
    path = write_snapshot(tmp_path_factory.mktemp("s") / "snapshot.pickle", allocator)
    report = report_memory(load_memory_snapshot(path))
    (device,) = report.devices
    assert sum(each.bytes for each in device.sites) == sum(size for size, _ in made)
    lines = {line for _, line in made}
    assert len(device.sites) == min(len(lines), MOST_SITES) + (len(lines) > MOST_SITES)
    for title in ("Device 0", "Held at the end", "Held at the peak"):
        *parts, whole = shares(render_memory(report), title)
        assert round(sum(parts), 1) == whole == 100.0


def test_text_of_a_snapshot_cannot_drive_the_terminal(tmp_path: Path) -> None:
    tree = snapshot(three_lines())
    evil = [{"name": "f\x1b]0;owned\x07", "filename": "/home/\x1b[2Jx.py", "line": 1}]
    for block in tree["segments"][0]["blocks"]:
        block["frames"] = evil
    path = tmp_path / "snap\x1bshot.pickle"
    path.write_bytes(pickle.dumps(tree))
    for is_json in (False, True):
        told = special_report(path, Kind.MEMORY_SNAPSHOT, as_json=is_json)
        assert "owned" in told
        assert not set("\x1b\x07") & set(told)


def test_metrics_are_told_by_kernel_and_null_where_not_measured(tmp_path: Path) -> None:
    path = write_metrics(tmp_path / "kernels.csv", KERNELS)
    text = special_report(path, Kind.KERNEL_METRICS, as_json=False)
    assert text.startswith(f"{path}\n5 kernels, 6 launches, measured by Nsight Compute\n")
    for name, figures in (
        ("gemm", "2    4.0 µs     80 %     30 %      50 %  compute"),
        ("copy", "1    500 ns     20 %     70 %         -  memory"),
        ("even", "1    400 ns     65 %     66 %      90 %  compute and memory"),
        ("tiny", "1    300 ns    1.5 %    2.5 %     6.2 %  latency"),
        ("blind", "1         -        -        -         -  not known"),
    ):
        assert re.search(rf"^  {re.escape(name)}\n +{re.escape(figures)}$", text, re.MULTILINE)
    assert all(len(line) <= 80 for line in text.splitlines()[1:])
    told = described("report", special_report(path, Kind.KERNEL_METRICS, as_json=True))
    assert (told["kind"], told["launches"], told["kernels"]) == ("kernel_metrics", 6, 5)
    first, *_, last = told["rows"]
    assert first["total_ns"] == 4000
    assert first["figures"]["limit"] == "compute"
    assert last["total_ns"] is None
    assert last["figures"]["limit"] is None


def test_kernels_that_are_not_listed_are_counted(tmp_path: Path) -> None:
    rows = [(f"k{at}x", str(at + 1), "1", "1", "1") for at in range(MOST_KERNELS + 3)]
    text = special_report(
        write_metrics(tmp_path / "k.csv", rows), Kind.KERNEL_METRICS, as_json=False
    )
    assert "3 more kernels are not listed" in text
    assert "k3x" in text
    assert "k2x" not in text


def with_metrics(folder: Path, *events: Event) -> Report:
    trace = write(folder / "trace.json", events)
    return make_report(
        load_subject(trace), load_ncu(write_metrics(folder / "kernels.csv", KERNELS))
    )


def test_metrics_are_joined_to_the_kernels_of_a_trace(tmp_path: Path) -> None:
    events = [gpu("void gemm<64>(float*)", 1, 2), gpu("void gemm<64>(float*)", 10, 3)]
    report = with_metrics(tmp_path, *events, gpu("softmax", 20, 4))
    text = render(report)
    assert "What limits the kernels, longest first (measured in kernels.csv)" in text
    figures = "2    5.0 µs     80 %     30 %      50 %  compute                  0.80x"
    assert re.search(rf"^  gemm\n +{re.escape(figures)}$", text, re.MULTILINE)
    assert re.search(r"^  softmax\n +1    4.0 µs not measured by ncu$", text, re.MULTILINE)
    assert re.findall("not in the trace: (.*)", text) == ["copy", "even", "tiny", "blind"]
    block = next(each for each in text.split("\n\n") if each.startswith("What limits"))
    assert max(len(line) for line in block.splitlines()) == 80
    told = described("report", as_json.encode(report))["kernel_metrics"]
    assert [row["name"] for row in told["rows"]] == ["void gemm<64>(float*)", "softmax"]
    assert told["rows"][0]["figures"]["limit"] == "compute"
    assert told["rows"][1]["figures"] is None
    assert told["unmatched"] == ["copy", "even", "tiny", "blind"]


def test_joined_metrics_stand_on_the_html_page(tmp_path: Path) -> None:
    events = [gpu("void gemm<64>(float*)", 1, 2), gpu("void gemm<64>(float*)", 10, 3)]
    page = read(html(with_metrics(tmp_path, *events, gpu("softmax", 20, 4))))
    part = section(page, "What limits the kernels, longest first (measured in kernels.csv)")
    assert cells(part.only("table")) == [
        ["gemm", "2", "5.0 µs", "80 %", "30 %", "50 %", "compute", "0.80x"],
        ["softmax", "1", "4.0 µs", "–", "–", "–", "not measured by ncu", "–"],
    ]
    missing = [one.text for one in part.every("p") if one.text.startswith("Not in the trace")]
    assert missing == [f"Not in the trace: {name}." for name in ("copy", "even", "tiny", "blind")]


def test_kernels_that_ran_quite_differently_under_ncu_are_said(tmp_path: Path) -> None:
    report = with_metrics(tmp_path, gpu("copy", 1, 2), gpu("even", 10, 1))
    assert [row.ratio for row in report.metrics.rows] == [0.25, 0.4]
    assert any("2 kernels took more than 2 times as long" in note for note in report.notes)


def test_a_trace_without_kernels_is_said_and_without_metrics_nothing(tmp_path: Path) -> None:
    report = with_metrics(tmp_path, cpu("aten::mm", 0, 80))
    assert "the trace has no kernels to join metrics to" in render(report)
    trace = write(tmp_path / "trace.json", [gpu("gemm", 1, 2)])
    report = make_report(load_subject(trace))
    assert "ncu" not in render(report)
    assert described("report", as_json.encode(report))["kernel_metrics"] is None
