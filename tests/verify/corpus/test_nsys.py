"""Real exports of Nsight Systems, against plain SQL, ``nsys stats`` and the log of a recording.

The collection lies beside the checkout, or where PERFTUI_TRACES says; without it nothing runs."""

import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
import pytest
from textual.pilot import Pilot

from perftui.analysis.analyse import analyse
from perftui.analysis.intervals import union
from perftui.analysis.model import TraceAnalysis
from perftui.analysis.ops.calls import call_sums, range_sums
from perftui.analysis.timeline.tracks import timeline_tracks
from perftui.trace.formats import load_trace
from perftui.trace.model import NOT_READ, Int64, Trace
from perftui.trace.nsys.database import Database, StringTables
from perftui_tui.app import PerftuiApp
from tests.tui.driving import until_shown
from tests.verify.corpus.collection import ROOT, expected
from tests.verify.corpus.outcome import MET, Account
from tests.verify.corpus.test_opens_in_the_app import check_each

pytestmark = pytest.mark.corpus

KINDS = ("nsys.", "nsys_stats.", "nsys_log.")
ENTRIES = [entry for entry in expected() if entry["quantity"].startswith(KINDS)]
TRACES = list(dict.fromkeys(entry["trace"] for entry in ENTRIES))

GROUPS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "cuda_gpu_kern_sum": (("kernel",), "Name"),
    "cuda_gpu_mem_time_sum": (("gpu_memcpy", "gpu_memset"), "Operation"),
    "cuda_api_sum": (("cuda_runtime", "cuda_driver"), "Name"),
    "nvtx_sum": (("user_annotation", "cpu_op"), "Range"),
}
"""Reports of ``nsys stats``: the categories they are about, and the column that names lines."""


@dataclass(frozen=True, eq=False)
class Opened:
    trace: Trace
    analysis: TraceAnalysis

    def rows(self, *categories: str) -> Int64:
        return np.flatnonzero(self.trace.in_category(*categories)).astype(np.int64)

    def total(self, *categories: str) -> dict[str, int]:
        rows = self.rows(*categories)
        return {
            "count": len(rows),
            "sum_ns": int(self.trace.duration[rows].sum()),
            "bytes": int(self.trace.bytes[rows].sum()),
        }

    @cached_property
    def tables(self) -> Counter[str]:
        """Rows of the trace by the table of the export that they come from."""
        reader = self.trace.read_arguments
        return Counter(reader.rows.tables[number] for number in reader.rows.table.tolist())

    def durations(self, report: str) -> dict[str, Int64]:
        """Durations by what ``nsys stats`` calls the line that they are in."""
        groups: dict[str, list[int]] = defaultdict(list)
        reader = self.trace.read_arguments
        with kept_open(reader.database):
            for row in self.rows(*GROUPS[report][0]).tolist():
                groups[line_of(report, reader(row))].append(int(self.trace.duration[row]))
        return {name: np.array(values) for name, values in groups.items()}


@contextmanager
def kept_open(database: Database) -> Iterator[None]:
    """Rows are read through one connection and one set of texts: one for each takes 1 ms."""
    with database.connect() as connection, pytest.MonkeyPatch.context() as patch:
        texts = StringTables(database, connection)
        patch.setattr(Database, "connect", lambda _: nullcontext(connection))
        patch.setattr("perftui.trace.nsys.columns.StringTables", lambda *_: texts)
        yield


def line_of(report: str, arguments: Mapping[str, Any]) -> str:
    if report == "cuda_gpu_kern_sum":
        return str(arguments["demangledName"])
    if report == "nvtx_sum":
        return str(arguments["text"])
    if report == "cuda_api_sum":
        return str(arguments["nameId"])
    return f"[CUDA memcpy {arguments['copyKind']}]" if "copyKind" in arguments else "[CUDA memset]"


@cache
def opened(name: str) -> Opened:
    trace = load_trace(ROOT / name)
    return Opened(trace, analyse(trace))


@cache
def summed(name: str, report: str) -> dict[str, Int64]:
    return opened(name).durations(report)


def short_name(name: str) -> str:
    return name.split("<")[0]


def top_kernels(it: Opened) -> list[list[Any]]:
    calls: Counter[str] = Counter()
    total: Counter[str] = Counter()
    table = it.analysis.kernels
    for name, category, count, spent in zip(
        table.names, table.categories, table.calls.tolist(), table.total.tolist(), strict=True
    ):
        if category == "kernel":
            calls[short_name(name)] += count
            total[short_name(name)] += spent
    return [[name, calls[name], spent] for name, spent in total.most_common()]


def kernels(it: Opened) -> dict[str, int]:
    rows, trace = it.rows("kernel"), it.trace
    tracks = [trace.tracks[number] for number in trace.track[rows].tolist()]
    return {
        "count": sum(each.kernel_count for each in it.analysis.activity),
        "sum_ns": sum(each.kernel_sum for each in it.analysis.activity),
        "first_start": int(trace.start[rows].min()) + trace.origin,
        "last_end": int(trace.end[rows].max()) + trace.origin,
        "devices": len({track.device for track in tracks}),
        "streams": len({track.stream for track in tracks}),
        "short_names": len(top_kernels(it)),
    }


MEASURES: dict[str, Callable[[Opened], Any]] = {
    "schema_version": lambda it: it.trace.metadata["EXPORT_SCHEMA_VERSION"],
    "kernels": kernels,
    "memcpy": lambda it: it.total("gpu_memcpy"),
    "memset": lambda it: it.total("gpu_memset"),
}


def check_sql(quantity: str, wanted: Any, it: Opened) -> None:
    if quantity == "gpus":
        names = [each["name"] for each in it.trace.metadata.get("deviceProperties", [])]
        # The expected values list two GPUs at most, of all that the file has.
        assert names[:2] == (wanted or [])
    elif quantity == "table_counts":
        # What no event is made of, such as context switches, is counted and said.
        found = {**it.tables, **it.trace.metadata.get(NOT_READ, {})}
        assert {table: found[table] for table in wanted} == wanted
    elif quantity == "top_kernels":
        assert top_kernels(it)[: len(wanted)] == wanted
    else:
        assert MEASURES[quantity](it) == wanted


def check_line(line: Mapping[str, str], durations: Int64, everything: int) -> None:
    """One line of a report of ``nsys stats``, as precisely as it is printed."""
    spread = float(np.std(durations, ddof=1)) if len(durations) > 1 else 0.0
    figures = {
        "Total Time (ns)": int(durations.sum()),
        "Instances": len(durations),
        "Count": len(durations),
        "Min (ns)": int(durations.min()),
        "Max (ns)": int(durations.max()),
        "Avg (ns)": float(durations.mean()),
        "Med (ns)": float(np.median(durations)),
        "StdDev (ns)": spread,
        "Time (%)": 100 * durations.sum() / everything,
    }
    compared = [name for name in line if name in figures]
    assert len(compared) == 8
    for name in compared:
        assert figures[name] == pytest.approx(float(line[name]), abs=0.0501, rel=0), (name, line)


def check_stats(report: str, wanted: list[dict[str, str]], name: str) -> None:
    groups = summed(name, report)
    everything = sum(int(each.sum()) for each in groups.values())
    assert wanted
    for line in wanted:
        check_line(line, groups[line[GROUPS[report][1]]], everything)


def check_log(quantity: str, wanted: Mapping[str, float], name: str) -> None:
    """A line of the log, whose names are cut off and without the version of most calls."""
    match = re.fullmatch(r"(\w+)\[(.*)\]", quantity)
    assert match
    report, label = match.groups()
    groups = summed(name, report)
    everything = sum(int(each.sum()) for each in groups.values())
    begin = label.removesuffix("…")
    found = [
        {
            "pct": pytest.approx(100 * each.sum() / everything, abs=0.0501),
            "total_ns": int(each.sum()),
            "count": len(each),
            "min_ns": int(each.min()),
            "max_ns": int(each.max()),
        }
        for line, each in groups.items()
        if line == label
        or re.fullmatch(rf"{re.escape(label)}_v\d+", line)
        or (begin != label and line.startswith(begin))
    ]
    assert wanted in found, (label, found)


@pytest.mark.skipif(not TRACES, reason="no collection of traces: set PERFTUI_TRACES to it")
def test_the_collection_has_exports() -> None:
    assert len(TRACES) >= 4
    assert len(ENTRIES) >= 70


@pytest.mark.slow
@pytest.mark.parametrize(
    "entry", ENTRIES, ids=[f"{entry['trace']}-{entry['quantity'][:60]}" for entry in ENTRIES]
)
def test_equals_the_expected_value(entry: dict[str, Any], account: Account) -> None:
    name = entry["trace"]
    kind, quantity = entry["quantity"].split(".", 1)
    if kind == "nsys":
        check_sql(quantity, entry["value"], opened(name))
    elif kind == "nsys_stats":
        check_stats(quantity, entry["value"], name)
    else:
        check_log(quantity, entry["value"], name)
    account(entry, MET)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_analysis_is_whole(name: str) -> None:
    it = opened(name)
    trace = it.trace
    assert trace.warnings == ()
    for budget in it.analysis.step_parts:
        assert sum(length for _, length in budget.parts) == budget.step.duration
    for each in it.analysis.activity:
        rows = it.rows("kernel", "gpu_memcpy", "gpu_memset")
        mine = rows[[trace.tracks[n].device == each.device for n in trace.track[rows].tolist()]]
        assert each.busy == union(trace.start[mine], trace.end[mine]).total
    tracks = np.concatenate([track.index.rows for track in timeline_tracks(trace)])
    assert np.array_equal(np.sort(tracks), np.arange(len(trace)))
    same = trace.track[1:] == trace.track[:-1]
    assert np.all(trace.start[1:][same] >= trace.start[:-1][same])


async def check_timeline(_name: str, _app: PerftuiApp, pilot: Pilot[None]) -> None:
    """The tracks of the GPU are there."""
    await pilot.press("2")
    await until_shown(pilot, "GPU 0 stream 7")


@pytest.mark.slow
@pytest.mark.skipif(not TRACES, reason="no collection of traces: set PERFTUI_TRACES to it")
async def test_every_screen_shows_each_export() -> None:
    await check_each(TRACES, check_timeline)


@pytest.mark.slow
@pytest.mark.parametrize("name", TRACES)
def test_ranges_and_calls_by_name_are_those_of_plain_sums(name: str) -> None:
    it = opened(name)
    for report, found in (("nvtx_sum", range_sums), ("cuda_api_sum", call_sums)):
        table = found(it.trace)
        rows = it.rows(*GROUPS[report][0])
        lengths: dict[str, list[int]] = defaultdict(list)
        for row in rows.tolist():
            lengths[it.trace.name_of(row)].append(int(it.trace.duration[row]))
        assert set(table.names) == set(lengths)
        for at, each in enumerate(table.names):
            own = lengths[each]
            assert table.calls[at] == len(own)
            assert (table.shortest[at], table.longest[at]) == (min(own), max(own))
            assert table.mean[at] == sum(own) // len(own)
            # Only a range within or beside one of its name takes less than all of them together.
            assert table.total[at] <= sum(own)
            assert report == "nvtx_sum" or table.total[at] == sum(own)
