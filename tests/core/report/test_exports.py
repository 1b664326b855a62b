"""What other programs read: tables as CSV, and folded stacks."""

import csv
import io
import re
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.api.reading import Trace
from perftui.report import text
from perftui.report.csv_tables import TABLES, CsvTable, csv_text, table_named
from perftui.report.folded_stacks import NoStacksError, folded_text, frame, render
from perftui.report.report import Report, make_report
from perftui.report.subject import Subject, load_subject
from perftui.run.columns import PHASES, STACK_COLUMNS, STEP_COLUMNS, WORKER_STACK_COLUMNS
from perftui.run.journal import JournalWriter
from perftui.run.layout import RunLayout
from perftui.trace.text import printable
from tests.core.diagnosis.stories import BF16, K, busy_with, product
from tests.core.report.test_report import TRACE, write_run
from tests.step_rows import step_row
from tests.traces.builder import TraceBuilder, ms, us
from tests.tui.traces import even_steps

TEXT = st.text(
    st.characters(
        exclude_categories=["Cs"],
        # Python 3.10's reader refuses it.
        exclude_characters="\0" if sys.version_info < (3, 11) else "",
    )
)
CELLS = st.one_of(st.none(), st.integers(), st.floats(allow_nan=False), TEXT)
Rows = list[dict[str, str]]


def read(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline=""), strict=True))


def rows_of(report: Report, name: str) -> Rows:
    heading, *rows = read(csv_text(table_named(name, report)))
    return [dict(zip(heading, row, strict=True)) for row in rows]


def report_of(built: TraceBuilder, top: int | None = None) -> Report:
    return make_report(Subject(Path("trace.json"), analysis=built.analysis()), top=top)


@given(st.lists(st.tuples(TEXT, CELLS, TEXT), max_size=5))
def test_cells_read_back_as_they_were(
    rows: list[tuple[str, str | int | float | None, str]],
) -> None:
    heading = ("a", "b (ns)", 'c, "quoted"')
    found = read(csv_text(CsvTable(heading, tuple(rows))))
    whole = [heading, *rows]
    assert found == [["" if one is None else str(one) for one in row] for row in whole]


@pytest.mark.parametrize("name", ["=1+1", "@sum(a1)", "+1", "-1", " a", "a\rb", "a\nb", 'a"b'])
def test_what_a_spreadsheet_acts_on_is_not_changed(name: str) -> None:
    assert read(csv_text(CsvTable(("name", "n"), ((name, 1),))))[1] == [name, "1"]


@given(st.lists(st.tuples(TEXT, TEXT), max_size=5))
def test_a_terminal_gets_no_control_characters(rows: list[tuple[str, str]]) -> None:
    text = csv_text(CsvTable(("a", "b"), tuple(rows)), for_terminal=True)
    assert printable(text.replace("\n", "")) == text.replace("\n", "")
    assert read(text)[1:] == [list(map(printable, row)) for row in rows]


def test_operators_and_kernels_are_all_there() -> None:
    built = TraceBuilder().step()
    for number in range(30):
        built.op(f'aten::a,"{number}"').launch(f"void k<{number}, int>()", us(7 + number)).close()
    report = report_of(built.sync().end())
    operators, kernels = rows_of(report, "operators"), rows_of(report, "kernels")
    assert {row["operator"] for row in operators} == {f'aten::a,"{n}"' for n in range(30)}
    assert [row["kernel or copy"] for row in kernels[:2]] == [
        "void k<29, int>()",
        "void k<28, int>()",
    ]
    table = report.subject.analysis
    assert table is not None
    assert sum(int(row["own CPU (ns)"]) for row in operators) == table.ops.cpu_self.sum()
    assert sum(int(row["device (ns)"]) for row in operators) == table.kernels.total.sum()
    assert sum(int(row["device (ns)"]) for row in kernels) == table.kernels.total.sum()
    assert kernels[0]["longest (ns)"] == kernels[0]["shortest (ns)"] == str(us(36))


def test_operators_without_device_time_are_in_order_of_their_own_cpu_time() -> None:
    """As from a file with kernels that belong to none of its operators."""
    built = TraceBuilder().step().op("aten::a", us(2)).op("aten::z", us(90)).op("aten::b", us(5))
    report = report_of(built.launch("gemm", us(7)).sync().end())
    names = ["aten::z", "aten::b", "aten::a"]
    assert [row["operator"] for row in rows_of(report, "operators")] == names
    assert re.findall(r"aten::\w", text.render(report)) == names
    assert [row.name for row in Trace(report.subject).operators] == names


def test_device_time_is_unknown_without_a_gpu_and_top_limits_the_rows() -> None:
    (row,) = rows_of(report_of(TraceBuilder().op("aten::mm", us(9))), "operators")
    assert row == {
        "operator": "aten::mm",
        "calls": "1",
        "own CPU (ns)": "9000",
        "total CPU (ns)": "9000",
        "device (ns)": "",
    }
    built = TraceBuilder().op("a", us(9)).op("b", us(5)).op("c", us(7))
    assert [row["operator"] for row in rows_of(report_of(built, top=2), "operators")] == ["a", "c"]


def test_rates_of_operators_and_sizes_are_those_of_the_device_or_of_the_cpu() -> None:
    sizes = product(600, 0.5)
    flops = 2 * sizes["Input Dims"][0][0] * 4096 * 4096
    report = report_of(busy_with(K(BF16, 300, ("aten::mm",), args=sizes)))
    row = rows_of(report, "rates")[0]
    assert (row["operator"], row["category"]) == ("aten::mm", "matrix products")
    assert (row["calls"], row["time (ns)"], row["FLOP"]) == ("1", "300000", str(flops))
    assert float(row["FLOP/s"]) == pytest.approx(flops / 300e-6)
    assert float(row["FLOP/byte"]) * int(row["bytes"]) == pytest.approx(flops)
    assert (row["limit"], float(row["of limit"])) == ("arithmetic", pytest.approx(1.0, rel=0.01))
    (found,) = Trace(report.subject).rates
    assert (found.operator, found.time_ns) == ("aten::mm", us(300))
    assert found.flop_per_s == pytest.approx(flops / 300e-6)

    def step(t: TraceBuilder) -> None:
        t.step().op("aten::linear").op("aten::mm", us(90), **sizes).close().end()

    on_cpu = report_of(TraceBuilder().repeat(2, step))
    (row,) = rows_of(on_cpu, "rates")
    assert (row["time (ns)"], row["longest kernel"], row["limit"]) == ("90000", "", "")
    assert float(row["FLOP/s"]) == pytest.approx(flops / 90e-6)
    (found,) = Trace(on_cpu.subject).rates
    assert (found.calls, found.longest_kernel, found.of_limit) == (1, None, None)


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.integers(0, 5000)] * 5), min_size=1, max_size=5), st.booleans())
def test_the_parts_of_a_traces_steps_sum_to_them(
    steps: list[tuple[int, int, int, int, int]], gpu: bool
) -> None:
    built = TraceBuilder()
    for wait, forward, kernel, backward, rest in steps:
        built.step().data_wait(us(wait)).forward().op("aten::mm", us(forward))
        if gpu:
            built.launch("gemm", us(kernel)).sync()
        built.backward(us(backward)).pause(us(rest + 1)).end()
    rows = rows_of(report_of(built), "steps")
    assert [row.pop("step") for row in rows] == [str(number) for number in range(len(steps))]
    for row in rows:
        assert int(row.pop("start (ns)")) >= 0
        duration = int(row.pop("duration (ns)"))
        assert all(name.endswith(" (ns)") for name in row)
        assert sum(map(int, row.values())) == duration > 0


def test_a_run_has_a_row_for_each_step(tmp_path: Path) -> None:
    report = make_report(load_subject(write_run(tmp_path / "runs", "one", window=TRACE.encode())))
    rows = rows_of(report, "steps")
    assert len(rows) == 30
    assert rows[3]["step"] == "3"
    assert rows[3]["kind"] == "train"
    assert rows[3]["start (ns)"] == str(3 * ms(33))
    assert rows[3]["data loader wait (ns)"] == str(ms(21))
    for row in rows:
        parts = [int(value) for name, value in row.items() if name.endswith(" (ns)")]
        assert sum(parts[2:]) == parts[1]


def test_parts_that_do_not_sum_are_unknown(tmp_path: Path) -> None:
    root = write_run(tmp_path / "runs", "one")
    steps = JournalWriter(RunLayout(root).rank(0).steps, STEP_COLUMNS)
    row = step_row(30, [1] * len(PHASES), start=ms(990))
    row[[column.name for column in STEP_COLUMNS].index("duration")] = 99
    steps.append([row])
    steps.close()
    table = table_named("steps", make_report(load_subject(root)))
    assert table.rows[-1][3:] == (99, *[None] * len(PHASES))
    assert table.note == "the parts of 1 step do not sum to the duration and are left empty"


def test_gaps_have_their_cause_and_line() -> None:
    built = TraceBuilder()
    for _ in range(3):
        built.step().op("aten::mm").launch("gemm", us(50)).close().sync()
        built.frame("train.py(12): load").op("aten::add").pause(us(500)).launch("add", us(30))
        built.close().close().sync().end()
    report = report_of(built)
    analysis = report.subject.analysis
    assert analysis is not None
    rows = rows_of(report, "gaps")
    assert len(rows) == len(analysis.gaps)
    for row, gap in zip(rows, analysis.gaps, strict=True):
        assert (int(row["start (ns)"]), int(row["end (ns)"])) == (gap.start, gap.end)
        assert int(row["duration (ns)"]) == gap.end - gap.start
        assert row["cause"] == gap.cause.value
    assert rows[0]["line"] == "train.py:12"
    assert {row["step"] for row in rows} >= {"0", "1", "2"}


def test_findings_have_cost_and_place(tmp_path: Path) -> None:
    report = make_report(load_subject(write_run(tmp_path / "runs", "one")))
    first = rows_of(report, "findings")[0]
    assert first["finding"] == "input-in-main-thread"
    assert first["severity"] == "critical"
    assert float(first["share"]) == report.diagnosis.findings[0].share
    assert int(first["cost (ns)"]) == ms(21)
    assert first["line"] == "/p/train.py:3"
    assert first["fixes"].split()[0] == "loader-workers"


@pytest.mark.parametrize("name", ["operators", "kernels", "modules", "gaps"])
def test_a_run_without_a_trace_has_a_heading_and_a_reason(tmp_path: Path, name: str) -> None:
    table = table_named(name, make_report(load_subject(write_run(tmp_path / "runs", "one"))))
    assert len(read(csv_text(table))) == 1
    assert table.note == "no window was profiled"


@pytest.mark.parametrize(
    ("name", "note"),
    [
        ("kernels", "the trace contains no kernels"),
        ("modules", "the trace contains no calls of modules"),
        ("gaps", "the trace contains no GPU activity"),
        ("steps", "no steps are marked in the trace"),
    ],
)
def test_a_trace_that_lacks_something_says_so(name: str, note: str) -> None:
    table = table_named(name, report_of(TraceBuilder().op("aten::mm", us(9))))
    assert (table.rows, table.note) == ((), note)


def test_every_row_is_as_long_as_the_heading() -> None:
    report = report_of(even_steps())
    for name in TABLES:
        table = table_named(name, report)
        assert {len(row) for row in table.rows} <= {len(table.heading)}


# As flamegraph.pl takes a line apart, and then the number of a second profile off the stack.
LINE = re.compile(r"(.*)\s+?(\d+(?:\.\d*)?)", re.ASCII)
STACKS = st.lists(
    st.tuples(st.lists(st.text(max_size=8), min_size=1, max_size=4), st.integers(0, 10**12)),
    max_size=6,
)
HARMFUL = ("a;b", "a\nb", "a\r", "epoch 3", "3", " 7.5", "\x1b[2J", "", " ", "\u2028", "\x85", "\0")


def stacks_of_file(text: str) -> list[tuple[list[str], int]]:
    assert not text or text.endswith("\n")
    found = []
    for line in text.split("\n")[:-1]:
        match = LINE.fullmatch(line)
        assert match is not None
        assert LINE.fullmatch(match[1]) is None
        found.append((match[1].split(";"), int(match[2])))
    return found


def of(built: TraceBuilder) -> str:
    return render(make_report(Subject(Path("trace.json"), analysis=built.analysis())))


@given(STACKS)
def test_names_do_not_break_the_format(stacks: list[tuple[list[str], int]]) -> None:
    text = folded_text(stacks)
    assert len(text.splitlines()) == text.count("\n")
    found = stacks_of_file(text)
    assert sum(number for _, number in found) == sum(number for _, number in stacks)
    depths = {len(names) for names, number in stacks if number}
    assert {len(names) for names, _ in found} == depths
    assert all(names == list(map(frame, names)) for names, _ in found)


@pytest.mark.parametrize("name", HARMFUL)
def test_a_harmful_name_is_one_frame(name: str) -> None:
    ((names, number),) = stacks_of_file(folded_text([(("main thread", name), 5)]))
    assert (names, number) == (["main thread", frame(name)], 5)
    assert names[1].isprintable()
    assert names[1]


def test_plain_names_stay_as_they_are() -> None:
    for name in (
        "void at::native::gemm<float, 4>(int*)",
        "train.py(12): forward",
        "ProfilerStep#3",
    ):
        assert frame(name) == name


@pytest.mark.slow
@given(st.lists(st.tuples(*[st.integers(1, 500)] * 4, st.booleans()), min_size=1, max_size=5))
def test_a_thread_sums_to_its_outermost_operators(
    parts: list[tuple[int, int, int, int, bool]],
) -> None:
    built, expected = TraceBuilder(), Counter[str]()
    for before, own, called, other, python in parts:
        begin = built.now + us(before)
        built.step().pause(us(before))
        if python:
            built.frame("train.py(3): f")
        built.op("aten::linear").pause(us(own)).op("aten::addmm", us(called)).close()
        built.op("aten::relu", us(own))
        if python:
            built.close()
        expected["main thread"] += built.now - begin
        built.end().on(2).op("AddBackward0", us(other)).on(1)
        expected["autograd"] += us(other)
    found: Counter[str] = Counter()
    for names, number in stacks_of_file(of(built)):
        found[names[0]] += number
    assert found == expected


def test_threads_of_one_name_stay_apart() -> None:
    built = TraceBuilder().op("a", us(9)).on(2).op("a", us(4)).on(3).op("a", us(5))
    built.fields = {}
    assert len({names[0] for names, _ in stacks_of_file(of(built))}) == 3


def test_a_trace_without_operators_has_none() -> None:
    with pytest.raises(NoStacksError, match="neither operators nor Python functions"):
        of(TraceBuilder().kernel("gemm", us(9)))


def with_samples(tmp_path: Path) -> Path:
    root = write_run(tmp_path / "runs", "one")
    rank = RunLayout(root).rank(0)
    stacks = JournalWriter(rank.stacks, STACK_COLUMNS)
    own = ["/p/train.py", 7, "main"]
    via = "torch/nn/functional.py linear"
    stacks.append(
        [
            # In the first seconds four times as many samples are taken.
            [0, ms(200), 1, *own, "torch/nn/functional.py:9 linear", ms(25), "forward", via],
            [ms(200), ms(700), 2, *own, "torch/nn/functional.py:9 linear", ms(100), "", via],
            [ms(900), ms(300), 1, *own, "torch/cuda.py:3 sync", ms(100), "", "torch/a.py call;x"],
            [ms(1200), ms(20), 1, *own, "p/train.py:7 main", ms(100), "", ""],
            [ms(1300), ms(100), 1, "", -1, "", "threading.py:1 wait", ms(100), "", ""],
        ]
    )
    stacks.close()
    workers = JournalWriter(rank.worker_stacks, WORKER_STACK_COLUMNS)
    load = ["/p/data.py", 4, "load", "p/data.py:4 load"]
    workers.append([[0, ms(400), 1, *load, ms(200), "fetch", "", pid, 1] for pid in (8, 9)])
    workers.close()
    return root


def test_a_run_without_a_window_gives_its_samples(tmp_path: Path) -> None:
    main = "main thread;main (/p/train.py:7)"
    assert render(make_report(load_subject(with_samples(tmp_path)))).splitlines() == [
        "data loader workers;load (/p/data.py:4) 4",
        "main thread;main (/p/train.py:7) 1",
        f"{main};torch/a.py call:x;torch/cuda.py:3 sync 3",
        f"{main};torch/nn/functional.py:9 linear 9",
        "main thread;threading.py:1 wait 1",
    ]


def test_a_run_without_anything_says_so(tmp_path: Path) -> None:
    with pytest.raises(NoStacksError, match="no window was profiled; the run has no stack samples"):
        render(make_report(load_subject(write_run(tmp_path / "runs", "one"))))
