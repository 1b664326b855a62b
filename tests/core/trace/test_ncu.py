"""Reports of Nsight Compute: pages of CSV, and numbers in every spelling."""

import codecs
import os
import random
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perftui.trace import ncu
from perftui.trace.model import TraceError
from perftui.trace.ncu import KernelMetrics, Launch, decimal_mark, is_ncu, load_ncu, number
from tests.core.trace.specimens import wounded

Load = Callable[..., KernelMetrics]

PLACE = '"1","7","(64, 1, 1)","(32, 2, 1)","0","8.6"'
DETAILS_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC","Section Name","Metric Name","Metric Unit","Metric Value",'
    '"Rule Name","Rule Type","Rule Description","Estimated Speedup Type","Estimated Speedup"'
)
RAW_HEADER = (
    '"ID","Process ID","Process Name","Host Name","Kernel Name","Context","Stream","Block Size",'
    '"Grid Size","Device","CC"'
)
SOL = "GPU Speed Of Light Throughput"


def detail(launch: int, name: str, section: str, metric: str, unit: str, value: str) -> str:
    metric_cells = f'"{section}","{metric}","{unit}","{value}",'
    return f'"{launch}","42","train","host","{name}",{PLACE},{metric_cells}'


def rule(launch: int, name: str) -> str:
    return (
        f'"{launch}","42","train","host","{name}",{PLACE},"SpeedOfLight","","","","SOLBottleneck",'
        '"WRN","Low ""compute"", 1,234 times\nover two lines.","",""'
    )


GEMM = partial(detail, 0, "void k<(int)4>(T1 *)")
DETAILS = "\n".join(
    [
        DETAILS_HEADER,
        GEMM(SOL, "Duration", "usecond", "1,431.84"),
        GEMM(SOL, "SM Frequency", "cycle/nsecond", "1.31"),
        GEMM(SOL, "Memory Throughput", "%", "64.86"),
        GEMM(SOL, "Compute (SM) Throughput", "%", "33.3"),
        rule(0, "void k<(int)4>(T1 *)"),
        GEMM("Memory Workload Analysis", "Memory Throughput", "Gbyte/second", "47.91"),
        GEMM("Launch Statistics", "Function Cache Configuration", "", "CachePreferNone"),
        GEMM("Launch Statistics", "Static Shared Memory Per Block", "Kbyte/block", "16.38"),
        GEMM("Occupancy", "Achieved Occupancy", "%", "56.08"),
        detail(1, "copy(float *)", SOL, "Duration", "nsecond", "nan"),
        detail(1, "copy(float *)", SOL, "Memory Throughput", "%", "n/a"),
        "",
    ]
)
RAW = "\n".join(
    [
        RAW_HEADER
        + ',"gpu__time_duration.sum","sm__throughput.avg.pct_of_peak_sustained_elapsed",'
        + '"gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",'
        + '"sm__warps_active.avg.pct_of_peak_sustained_active","dram__bytes.sum"',
        '"","","","","","","","","","","","msecond","%","%","%","Mbyte"',
        f'"0","42","train","host","k",{PLACE},"1.006528","33.3","64.86","56.08",'
        + '"1.048576 (0.5; 0.548576)"',
        f'"1","42","train","host","copy",{PLACE},"nan","","(!) n/a","inf","-nan"',
        "",
    ]
)


@pytest.fixture
def load(tmp_path: Path) -> Load:
    """Writes text (or bytes as they are) to a file and loads it."""

    def write_and_load(content: str | bytes, name: str = "kernels.csv") -> KernelMetrics:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return load_ncu(path)

    return write_and_load


def test_the_details_page_becomes_one_launch_for_each_id(load: Load) -> None:
    metrics = load(DETAILS)
    first, second = metrics.launches
    assert first.name == "void k<(int)4>(T1 *)"
    assert first.duration == 1_431_840
    assert first.memory_throughput == 64.86
    assert first.compute_throughput == 33.3
    assert first.achieved_occupancy == 56.08
    assert (second.duration, second.memory_throughput, second.compute_throughput) == (None,) * 3
    assert metrics.warnings == ()


def test_the_raw_page_has_its_units_in_a_row(load: Load) -> None:
    first, second = load(RAW).launches
    assert first.duration == 1_006_528
    assert (first.compute_throughput, first.memory_throughput) == (33.3, 64.86)
    assert first.achieved_occupancy == 56.08
    assert second == Launch("copy")


def test_what_ncu_and_the_program_say_around_the_page_is_skipped(load: Load) -> None:
    noise = (
        "==PROF== Connected to process 42 (/usr/bin/python3)\r\n"
        'epoch 1, "loss", 0.5\r\n'
        '==PROF== Profiling "k" - 0: 0%....50%....100% - 8 passes\r\n'
    )
    tail = "==PROF== Disconnected from process 42\r\n==WARNING== Note, that\r\n"
    metrics = load(noise + DETAILS.replace("\n", "\r\n") + tail)
    assert [launch.duration for launch in metrics.launches] == [1_431_840, None]
    assert metrics.warnings == ()


def test_a_cut_row_is_said_and_the_rest_is_read(load: Load) -> None:
    cut = DETAILS[: DETAILS.index(',"Memory Throughput","%","64.86"')]
    metrics = load(cut)
    assert metrics.launches[0].duration == 1_431_840
    assert metrics.launches[0].memory_throughput is None
    assert metrics.warnings == ("1 rows are cut off and were not read",)
    raw = load(RAW[: RAW.index('"inf"')])
    assert len(raw) == 1
    assert raw.warnings == ("1 rows are cut off and were not read",)


def test_files_of_powershell_and_with_a_byte_order_mark(load: Load) -> None:
    for content in (
        codecs.BOM_UTF16_LE + DETAILS.encode("utf-16-le"),
        codecs.BOM_UTF8 + DETAILS.encode(),
    ):
        assert load(content).launches[0].duration == 1_431_840
        assert is_ncu(content[:1024])


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ({"Compute (SM) Throughput": "SM [%]", "Memory Throughput": "Memory [%]"}, SOL),
        (
            {"Compute (SM) Throughput": "SOL SM", "Memory Throughput": "SOL Memory"},
            "GPU Speed Of Light",
        ),
        (
            {
                "Compute (SM) Throughput": "sm__throughput.avg.pct_of_peak_sustained_elapsed",
                "Duration": "gpu__time_duration.sum",
            },
            "Command line profiler metrics",
        ),
    ],
)
def test_names_of_older_versions_and_of_chosen_metrics(
    load: Load, old: dict[str, str], new: str
) -> None:
    text = DETAILS.replace(SOL, new)
    for name, replacement in old.items():
        text = text.replace(f'"{name}","%"', f'"{replacement}","%"')
        text = text.replace(f'"{name}","usecond"', f'"{replacement}","us"')
    first = load(text).launches[0]
    assert (first.compute_throughput, first.memory_throughput) == (33.3, 64.86)
    assert first.duration == 1_431_840


def test_the_oldest_page_has_no_device_and_no_shapes(load: Load) -> None:
    text = (
        '"ID","Process ID","Process Name","Host Name","Kernel Name","Kernel Time","Context",'
        '"Stream","Section Name","Metric Name","Metric Unit","Metric Value"\n\n'
        '"0","9","a.out","127.0.0.1","kernel","2020-Apr-07 17:01:05","1","7",'
        '"GPU Speed Of Light","SOL SM","%","39.60"\n'
    )
    assert load(text).launches[0] == Launch("kernel", compute_throughput=39.6)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("", "not CSV from ncu"),
        ('{"traceEvents": []}', "not CSV from ncu"),
        (DETAILS_HEADER + "\n", "holds no kernel"),
        (RAW.split("\n")[0] + "\n" + RAW.split("\n")[1], "holds no kernel"),
        (DETAILS_HEADER + ',"ID"\n', "twice"),
        (
            "==PROF== Connected\n==ERROR== ERR_NVGPUCTRPERM\x1b - no permission\n",
            r"ncu failed: ==ERROR== ERR_NVGPUCTRPERM\\x1b - no permission",
        ),
        (DETAILS + '"' + "x" * 200_000, "damaged"),
    ],
)
def test_what_is_no_page_is_said(load: Load, content: str, message: str) -> None:
    with pytest.raises(TraceError, match=message):
        load(content)


def test_unreadable_paths_are_said(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match="No such file"):
        load_ncu(tmp_path / "absent.csv")


def test_pages_and_reports_are_known_by_their_first_bytes() -> None:
    assert is_ncu(DETAILS.encode()[:512])
    assert is_ncu(RAW.encode()[:512])
    assert is_ncu(b"==PROF== Connected\n" + DETAILS.encode()[:512])
    assert is_ncu(b"NVR\0\x02\0\0\0")
    assert not is_ncu(b"ID,Name\n1,2\n")
    assert not is_ncu(b'{"Kernel Name": 1}')
    assert not is_ncu(b"")


@pytest.mark.slow
@pytest.mark.parametrize("page", [DETAILS, RAW], ids=["details", "raw"])
def test_damage_raises_nothing_but_a_trace_error(load: Load, page: str) -> None:
    chance = random.Random(page)  # noqa: S311 - damages a test file
    for _ in range(200):
        with suppress(TraceError):
            for launch in load(wounded(page.encode(), chance)).launches:
                assert launch.duration is None or launch.duration == launch.duration


FAKE = """#!/bin/sh
here=$(pwd)
printf '%s\\n' "$@" > "{log}"
printf '%s\\n%s\\n' "$here" "$TMPDIR" >> "{log}"
touch "$TMPDIR/lock"
{act}
"""


@pytest.fixture
def fake_ncu(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Puts a script called ncu on PATH that does ``act``; returns where it notes its arguments."""

    def install(act: str) -> Path:
        folder, log = tmp_path / "bin", tmp_path / "log"
        folder.mkdir()
        script = folder / "ncu"
        script.write_text(FAKE.format(log=log, act=act))
        script.chmod(0o700)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return log

    return install


def test_a_report_is_read_through_ncu(
    tmp_path: Path, load: Load, fake_ncu: Callable[[str], Path]
) -> None:
    page = tmp_path / "page.csv"
    page.write_text("==PROF== said\n" + RAW)
    log = fake_ncu(f'cat "{page}"')
    name = "a; touch injected $(b).ncu-rep"
    metrics = load(b"NVR\0rest", name)
    assert metrics.launches[0].duration == 1_006_528
    assert metrics.path.name == name
    said = log.read_text().splitlines()
    assert said[:5] == ["--import", str(tmp_path / name), "--csv", "--page", "raw"]
    assert said[5] == said[6]
    assert not Path(said[5]).exists()
    assert "perftui-ncu-" in said[5]
    assert not (tmp_path / "injected").exists()


def test_without_ncu_the_command_to_run_is_said(
    tmp_path: Path, load: Load, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(TraceError) as error:
        load(b"NVR\0rest", "my kernels.ncu-rep")
    command = f"ncu --import '{tmp_path}/my kernels.ncu-rep' --csv --page raw > kernels.csv"
    assert command in str(error.value)


def test_what_ncu_said_when_it_failed_is_said(load: Load, fake_ncu: Callable[[str], Path]) -> None:
    fake_ncu(r"printf '==ERROR== Failed\033 to load report\n' >&2; exit 1")
    with pytest.raises(TraceError, match=r"ncu ended with 1: ==ERROR== Failed\\x1b to load"):
        load(b"NVR\0rest", "x.ncu-rep")


def test_an_ncu_that_hangs_or_cannot_start_is_said(
    load: Load, fake_ncu: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    log = fake_ncu("exec sleep 60")
    monkeypatch.setattr(ncu, "PATIENCE", 0.2)
    with pytest.raises(TraceError, match="ncu took more than"):
        load(b"NVR\0rest", "x.ncu-rep")
    script = log.parent / "bin" / "ncu"
    script.write_text("#!/no/such/interpreter\n")
    with pytest.raises(TraceError, match="ncu: No such file"):
        load(b"NVR\0rest", "x.ncu-rep")


GROUPS = {"english": (",", "."), "german": (".", ","), "swiss": ("'", "."), "none": ("", ".")}
GROUPS |= {"french": ("\u202f", ","), "spaced": ("\u00a0", "."), "typeset swiss": ("\u2019", ".")}


def spelled(value: int, fraction: str, grouping: str, mark: str) -> str:
    whole = f"{value:,}".replace(",", grouping)
    return f"{whole}{mark}{fraction}" if fraction else whole


@given(
    st.lists(st.tuples(st.integers(-(10**12), 10**12), st.sampled_from(["", "5", "25", "123456"]))),
    st.sampled_from(sorted(GROUPS)),
)
def test_numbers_of_any_locale_are_read_as_they_were_meant(
    values: list[tuple[int, str]], locale: str
) -> None:
    grouping, mark = GROUPS[locale]
    # Two digits behind the mark, as on the details page: one such cell tells the locale.
    cells = [spelled(value, fraction, grouping, mark) for value, fraction in [*values, (7, "25")]]
    found = decimal_mark(cells)
    assert found == mark
    wanted = [float(f"{value}.{fraction}") for value, fraction in values]
    assert [number(cell, found) for cell in cells[:-1]] == wanted


@pytest.mark.parametrize(
    ("cells", "mark"),
    [
        ([], "."),
        (["1,234"], "."),
        (["1.234"], "."),
        (["1,234", "64.86"], "."),
        (["1.234", "64,86"], ","),
        (["1,234.567"], "."),
        (["1.234,567"], ","),
        (["1,234,567"], "."),
        (["1.234.567"], ","),
        (["0.125"], "."),
        (["0,125"], ","),
        (["12.5", "12,5"], "."),
        (["12,5", "12.5"], "."),
        (["CachePreferNone", "n/a", "(64, 1, 1)"], "."),
        (["5,5 (1,5; 4,0)"], ","),
    ],
)
def test_the_mark_is_what_the_file_can_only_mean(cells: list[str], mark: str) -> None:
    assert decimal_mark(cells) == mark


@pytest.mark.parametrize(
    "text",
    [
        "",
        "nan",
        "-nan",
        "inf",
        "-inf",
        "n/a",
        "(!) n/a",
        "N/A",
        "CachePreferNone",
        "1_000",
        "0x10",
        "1e999",
        "1,2",
        "1,2345",
        "12,34",
        "1.2.3",
        "٣",
        "(1; 2)",
        "--1",
        "1 e",
        "True",
    ],
)
def test_what_is_no_number_is_none(text: str) -> None:
    assert number(text) is None


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("12 (1; 5; 6)", 12.0),
        ("1,234.5 (1,000.5; 234)", 1234.5),
        ("1,23,45,678.5", 12345678.5),
        ("-0.5", -0.5),
        (".5", 0.5),
        ("1.5e3", 1500.0),
        ("+7", 7.0),
    ],
)
def test_spellings_of_one_number(text: str, value: float) -> None:
    assert number(text) == value


def test_scaling_is_exact() -> None:
    assert number("1.006528", factor=10**6) == 1_006_528
    assert number("0.1", factor=10**9) == 100_000_000


@pytest.mark.parametrize(
    ("unit", "ns"), [("second", 10**9), ("ms", 10**6), ("usecond", 10**3), ("ns", 1), ("x", None)]
)
def test_times_are_in_nanoseconds(load: Load, unit: str, ns: int | None) -> None:
    text = DETAILS.replace('"usecond","1,431.84"', f'"{unit}","1"')
    assert load(text).launches[0].duration == ns
