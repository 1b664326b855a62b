"""A trace with our tracks: the original is all there, and ours lie where the analysis says."""

import gzip
import json
import os
import stat
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.analysis.analyse import analyse
from perftui.analysis.steps import OPERATORS, find_phases
from perftui.report.perfetto import (
    PROCESS,
    PerfettoError,
    Span,
    span_event,
    without_crossing,
    write_perfetto,
)
from perftui.report.report import Report, make_report
from perftui.report.subject import load_subject
from perftui.run.columns import phase_name
from perftui.run.layout import RunLayout
from perftui.trace.formats import load_trace
from perftui.trace.model import Trace
from perftui.trace.text import encodable
from tests.core.report.test_report import TRACE, write_run
from tests.core.trace import nsys_exports as nsys
from tests.traces.builder import TraceBuilder, ms, us
from tests.traces.events import cpu, gpu, named, write
from tests.tui.traces import even_steps

SPANS = st.lists(
    st.builds(
        lambda start, length: Span("a", start, start + length),
        st.integers(0, 30),
        st.integers(0, 15),
    ),
    max_size=20,
)
PARTS = st.lists(
    st.tuples(st.integers(0, 900), st.integers(1, 3000), st.integers(0, 300), st.booleans()),
    min_size=1,
    max_size=5,
)


def story(parts: list[tuple[int, int, int, bool]]) -> TraceBuilder:
    built = TraceBuilder(fields={"baseTimeNanoseconds": 1_700_000_000_000_000_123})
    for wait, kernel, rest, waits in parts:
        built.step().data_wait(wait).forward().op("aten::mm").launch("gemm", us(kernel)).close()
        if waits:
            built.sync()
        built.backward(us(rest)).optimizer_step(rest).pause(us(5)).end()
    return built


def documents(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    found: dict[str, Any] = json.loads(text, parse_float=Decimal)
    return found


def ours(path: Path, trace: Trace) -> dict[str, list[tuple[str, int, int]]]:
    """Spans by track, in ns since the start 0 of ``trace``."""
    events = documents(path)["traceEvents"]
    process = next(one["pid"] for one in events if one.get("args") == {"name": PROCESS})
    mine = [one for one in events if one["pid"] == process]
    names = {one["tid"]: one["args"]["name"] for one in mine if one["name"] == "thread_name"}
    found: dict[str, list[tuple[str, int, int]]] = {name: [] for name in names.values()}
    for one in mine:
        if one["ph"] == "X":
            start = int(1000 * one["ts"]) - trace.origin
            found[names[one["tid"]]].append((one["name"], start, start + int(1000 * one["dur"])))
    return found


def made(folder: Path, built: TraceBuilder, name: str = "out.json") -> tuple[Report, Path]:
    path = built.write(folder / "trace.json")
    report = make_report(load_subject(path))
    out = folder / name
    write_perfetto(report, out)
    return report, out


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("traces")


@pytest.mark.slow
@given(PARTS, st.sampled_from(["out.json", "out.json.gz"]))
def test_the_original_is_all_there_and_ours_lie_right(
    folder: Path, parts: list[tuple[int, int, int, bool]], name: str
) -> None:
    report, out = made(folder, story(parts), name)
    analysis = report.subject.analysis
    assert analysis is not None
    original, written = documents(folder / "trace.json"), documents(out)
    events = original.pop("traceEvents")
    assert written.pop("traceEvents")[-len(events) :] == events
    assert written == original

    tracks = ours(out, analysis.trace)
    found = [span for span in tracks["steps"] if span[0].startswith("step ")]
    assert found == [(f"step {one.index}", one.start, one.end) for one in analysis.steps]
    times: dict[str, int] = {}
    for phase, start, end in set(tracks["steps"]) - set(found):
        times[phase] = times.get(phase, 0) + end - start
    phases = {
        phase_name(phase): at.total
        for phase, at in find_phases(analysis.trace).items()
        if phase != OPERATORS
    }
    assert times == phases
    gaps = sorted((gap.start, gap.end, gap.cause.value) for gap in analysis.gaps)
    assert gaps == [(start, end, cause) for cause, start, end in tracks.get("GPU 0 idle", [])]
    rules = {one.rule for one in report.diagnosis.findings}
    assert {
        span[0] for track, spans in tracks.items() if "findings" in track for span in spans
    } == (rules)


@pytest.mark.slow
@given(PARTS)
def test_our_own_reader_finds_the_same_in_it(
    folder: Path, parts: list[tuple[int, int, int, bool]]
) -> None:
    report, out = made(folder, story(parts))
    before, after = report.subject.analysis, analyse(load_trace(out))
    assert before is not None
    assert after.trace.warnings == ()
    assert after.trace.origin == before.trace.origin
    assert after.trace.wall_origin == before.trace.wall_origin
    assert [(g.start, g.end, g.cause) for g in after.gaps] == [
        (g.start, g.end, g.cause) for g in before.gaps
    ]
    assert [(one.step.start, one.parts) for one in after.step_parts] == [
        (one.step.start, one.parts) for one in before.step_parts
    ]
    assert after.ops.names == before.ops.names
    assert after.kernels.total.tolist() == before.kernels.total.tolist()


@given(SPANS)
def test_spans_of_a_thread_never_cross(spans: list[Span]) -> None:
    tracks = [list(track) for track in without_crossing(spans)]
    assert sorted(map(id, spans)) == sorted(id(span) for track in tracks for span in track)
    for track in tracks:
        for number, one in enumerate(track):
            for later in track[number + 1 :]:
                assert (later.start, -later.end) >= (one.start, -one.end)
                assert later.end <= one.end or later.start >= one.end


@given(st.integers(-(2**62), 2**62), st.integers(0, 2**50))
def test_times_keep_every_nanosecond(origin: int, lasting: int) -> None:
    event = json.loads(
        span_event(Span("a", 5, 5 + lasting), 1, 1, origin), parse_float=Decimal, parse_int=Decimal
    )
    assert (event["ts"] * 1000, event["dur"] * 1000) == (origin + 5, lasting)


@given(st.text(st.characters()))
def test_any_name_can_be_written(name: str) -> None:
    event = json.loads(span_event(Span(name, 0, 1, {"line": name}), 1, 1, 0))
    assert event["name"] == event["args"]["line"] == encodable(name)


def test_a_gap_has_its_line_and_a_finding_what_to_do(tmp_path: Path) -> None:
    built = TraceBuilder()
    for _ in range(4):
        built.step().frame("train.py(12): load").op("aten::item").launch("a", us(30)).sync()
        built.pause(ms(3)).launch("b", us(30)).close().close().sync().end()
    _, out = made(tmp_path, built)
    events = documents(out)["traceEvents"]
    mine = [one for one in events if one.get("cat") == "perftui"]
    gaps = [one for one in mine if "operator" in one["args"] and "severity" not in one["args"]]
    assert {one["args"].get("line") for one in gaps if one["dur"] > 2000} == {"train.py:12"}
    findings = [one for one in mine if "severity" in one["args"]]
    assert findings
    assert all(one["args"]["sentence"] for one in findings)
    assert None not in [value for one in mine for value in one["args"].values()]


def test_times_are_on_the_clock_of_an_old_file(tmp_path: Path) -> None:
    """Absolute microseconds with decimals, more digits than a float holds."""
    first = Decimal("1623143089861123.457")
    events = []
    for number in range(3):
        at = first + 10_000 * number
        marked = cpu(f"ProfilerStep#{number}", 0, 0, "user_annotation")
        events.append({**marked, "ts": str(at), "dur": 9_000})
        events.append({**gpu("gemm", 0, 0), "ts": str(at + 1), "dur": 100})
    path = write(tmp_path / "trace.json", events)
    write_perfetto(make_report(load_subject(path)), tmp_path / "out.json")
    mine = [
        one["ts"]
        for one in documents(tmp_path / "out.json")["traceEvents"]
        if str(one["name"]).startswith("step ")
    ]
    assert mine == [first + 10_000 * number for number in range(3)]


def test_our_process_has_a_number_of_its_own(tmp_path: Path) -> None:
    events = [{**cpu("a", number, 1), "pid": 2**22 + 1 + number} for number in range(3)]
    path = write(tmp_path / "trace.json", [*events, named(1, "main")])
    write_perfetto(make_report(load_subject(path)), tmp_path / "out.json")
    found = documents(tmp_path / "out.json")["traceEvents"]
    assert [one["pid"] for one in found if one["name"] == "process_name"] == [2**22 + 4]


def test_an_export_of_nsys_gives_its_kernels(tmp_path: Path) -> None:
    path = nsys.write(tmp_path / "report.sqlite", nsys.small())
    report = make_report(load_subject(path))
    _, has_original = write_perfetto(report, tmp_path / "out.json")
    assert not has_original
    before, after = report.subject.analysis, analyse(load_trace(tmp_path / "out.json"))
    assert before is not None
    assert after.kernels.names == before.kernels.names != ()
    assert after.kernels.total.tolist() == before.kernels.total.tolist()
    shift = before.trace.origin - after.trace.origin
    assert [(one.device, one.start, one.busy) for one in after.activity] == [
        (one.device, one.start + shift, one.busy) for one in before.activity
    ]


def test_the_trace_that_is_read_is_never_written_over(tmp_path: Path) -> None:
    path = even_steps().write(tmp_path / "trace.json")
    report, content = make_report(load_subject(path)), path.read_bytes()
    (tmp_path / "link.json").symlink_to(path)
    os.link(path, tmp_path / "hard.json")
    for name in ("trace.json", "link.json", "hard.json"):
        with pytest.raises(PerfettoError, match="is the trace that is read"):
            write_perfetto(report, tmp_path / name)
    assert path.read_bytes() == content


def test_files_of_a_run_are_never_written_over(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", "one", window=TRACE.encode())
    report = make_report(load_subject(root))
    for path in (RunLayout(root).manifest, RunLayout(root).rank(0).window(3)):
        content = path.read_bytes()
        with pytest.raises(PerfettoError):
            write_perfetto(report, path)
        assert path.read_bytes() == content
    write_perfetto(report, root / "new.json")
    assert documents(root / "new.json")["traceEvents"]


def test_a_run_without_a_trace_is_refused(tmp_path: Path) -> None:
    report = make_report(load_subject(write_run(tmp_path / "runs", "one")))
    with pytest.raises(PerfettoError, match="has no trace to write: no window was profiled"):
        write_perfetto(report, tmp_path / "out.json")
    assert not (tmp_path / "out.json").exists()


def test_a_file_that_cannot_be_written_whole_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    report, out = made(tmp_path, even_steps())
    content = out.read_bytes()
    assert stat.S_IMODE(out.stat().st_mode) == 0o600

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full)
    with pytest.raises(OSError, match="No space left"):
        write_perfetto(report, out)
    assert out.read_bytes() == content
    assert sorted(one.name for one in tmp_path.iterdir()) == ["out.json", "trace.json"]
