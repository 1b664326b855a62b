"""Measurements of each kernel launch by NVIDIA Nsight Compute (ncu).

They are read from the CSV of either page (one row a metric, or one row a launch), or from a binary
report, through the installed ncu.
"""

from __future__ import annotations

import codecs
import csv
import math
import os
import re
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import lru_cache
from pathlib import Path
from typing import TypeAlias

from perftui.trace.model import TraceError
from perftui.trace.text import printable

_SPACES = re.compile("[\\s\u00a0\u2009\u202f'\u2019]")
"""Group separators besides point and comma: spaces of every width, and the Swiss apostrophe."""

_INSTANCES = re.compile(r"\s*\([^()]*;[^()]*\)$")
"""``--print-metric-instances`` puts the values of the units behind the value itself."""

_POINT = re.compile(
    r"[+-]?(?:[\d,]*,\d{3}\.\d*|\d*\.(?!\d{3}$)\d*|0\.\d+|\d+(?:,\d{2,3}){2,})", re.ASCII
)
_COMMA = re.compile(
    r"[+-]?(?:[\d.]*\.\d{3},\d*|\d*,(?!\d{3}$)\d*|0,\d+|\d+(?:\.\d{2,3}){2,})", re.ASCII
)
_NUMBER = re.compile(
    r"[+-]?(?:\d+|\d{1,3}(?:,\d{2,3})*,\d{3})(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|[+-]?\.\d+", re.ASCII
)
"""With a point; digits may stand in groups of three, or of two before the last three (India)."""

_SWAP = str.maketrans(",.", ".,")


def decimal_mark(cells: Iterable[str]) -> str:
    """``,`` if the cells of one file can only be read that way, else ``.``.

    ``1,234`` alone proves nothing; ``64,86`` or ``1.234,5`` does. A file with both is read with a
    point.
    """
    comma = False
    for cell in cells:
        text = _SPACES.sub("", _INSTANCES.sub("", cell))
        if _POINT.fullmatch(text):
            return "."
        comma = comma or _COMMA.fullmatch(text) is not None
    return "," if comma else "."


@dataclass(frozen=True)
class Unit:
    """Factor for a value, and its unit afterwards."""

    factor: int
    name: str


AS_IT_IS = Unit(1, "")


def number(text: str, mark: str = ".", unit: Unit = AS_IT_IS) -> float | None:
    """The value of a cell in ``unit.name``, None for ``n/a``, ``nan``, infinities and words."""
    plain = _SPACES.sub("", _INSTANCES.sub("", text))
    if mark == ",":
        plain = plain.translate(_SWAP)
    if not _NUMBER.fullmatch(plain):
        return None
    # Decimal: 1.006528 ms times a million is 1006528.0000000001 in floats.
    value = float(Decimal(plain.replace(",", "")) * unit.factor)
    return value if math.isfinite(value) else None


_PREFIXES = {"": 1, "K": 10**3, "k": 10**3, "M": 10**6, "G": 10**9, "T": 10**12, "P": 10**15}
"""Powers of 1000, for bytes too: ncu prints 32,768 bytes as 32.768 Kbyte."""

_NS = {"second": 10**9, "s": 10**9, "msecond": 10**6, "ms": 10**6}
_NS |= {"usecond": 10**3, "us": 10**3, "nsecond": 1, "ns": 1}
_HERTZ = re.compile(r"([KkMGT]?)[Hh]z")
_PREFIXED = re.compile(r"([KkMGTP]?)(byte|B|cycle|inst|sector|request|warp|thread|block)")


@lru_cache(maxsize=1024)
def unit_of(text: str) -> Unit:
    """Conversion of this unit to ns, byte, Hz, byte/s, or the unit without its prefix."""
    text = text.strip()
    if text in _NS:
        return Unit(_NS[text], "ns")
    if hertz := _HERTZ.fullmatch(text):
        return Unit(_PREFIXES[hertz.group(1)], "Hz")
    above, slash, below = text.partition("/")
    prefixed = _PREFIXED.fullmatch(above)
    if not prefixed:
        return Unit(1, text)
    factor = _PREFIXES[prefixed.group(1)]
    base = "byte" if prefixed.group(2) == "B" else prefixed.group(2)
    if below not in _NS:
        return Unit(factor, base + slash + below)
    return Unit(factor * 10**9 // _NS[below], "Hz" if base == "cycle" else f"{base}/s")


MAGIC = b"NVR\0"
"""First bytes of an ``.ncu-rep``."""

PATIENCE = 300.0
"""Seconds after which ncu counts as stuck."""

_LONGEST_MESSAGE = 300


def csv_of_report(path: Path) -> str:
    """The raw page, with measured values instead of values rounded to two digits.

    Raises TraceError if there is no ncu, with the command to run where there is one; if ncu cannot
    read the report, with its output; and after ``PATIENCE``.
    """
    ncu = shutil.which("ncu")
    if ncu is None:
        command = shlex.join(["ncu", "--import", str(path), "--csv", "--page", "raw"])
        raise TraceError(
            f"{printable(str(path))} is a binary report and ncu is not on PATH; where Nsight "
            f"Compute is installed, run: {printable(command)} > kernels.csv; then open kernels.csv"
        )
    # ncu writes lock and unpacked files to the directory for temporary files.
    with tempfile.TemporaryDirectory(prefix="perftui-ncu-") as private:
        return _run([ncu, "--import", str(path.resolve()), "--csv", "--page", "raw"], private, path)


def _run(command: list[str], private: str, path: Path) -> str:
    try:
        done = subprocess.run(  # noqa: S603 - a list, of ncu from PATH and a path of ours; no shell
            command,
            cwd=private,
            env={**os.environ, "TMPDIR": private},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=PATIENCE,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        raise TraceError(f"cannot read {path}: ncu took more than {PATIENCE:.0f} s") from error
    except OSError as error:
        raise TraceError(f"cannot read {path}: ncu: {error.strerror or error}") from error
    output = done.stdout.decode("utf-8", "replace")
    if done.returncode:
        words = (done.stderr.decode("utf-8", "replace") + output).strip()
        raise TraceError(
            f"cannot read {path}: ncu ended with {done.returncode}: "
            f"{printable(words)[:_LONGEST_MESSAGE]}"
        )
    return output


MetricKey: TypeAlias = tuple[str, str]
"""Section and name: ``Memory Throughput`` is a share of the peak in one section, a rate in another.
The raw page and ``--metrics`` have no sections; the section is then ``""``."""

PERCENT, NANOSECONDS, BYTES, HERTZ, BYTES_PER_SECOND = "%", "ns", "byte", "Hz", "byte/s"


@dataclass(frozen=True)
class Metric:
    """One value; text is not yet safe to show."""

    value: float | None
    """None if ncu printed no number: ``n/a``, ``nan``, or words."""
    unit: str
    """Times are ``ns``, sizes ``byte``, rates ``Hz`` and ``byte/s``, shares ``%``; units of other
    kinds (``warp``, ``register/thread``) are spelled as in the file, without a prefix."""
    text: str
    """The value as the file spells it."""


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel. Values missing in the file are None."""

    id: str
    name: str
    compute_capability: str
    metrics: Mapping[MetricKey, Metric]

    @property
    def duration(self) -> float | None:
        """Duration of the kernel under ncu in ns: clocks fixed, caches flushed by default."""
        return self._named(_DURATION, NANOSECONDS)

    @property
    def compute_throughput(self) -> float | None:
        """Busiest compute unit, percent of peak."""
        return self._named(_COMPUTE, PERCENT)

    @property
    def memory_throughput(self) -> float | None:
        """Busiest memory unit, percent of peak."""
        return self._named(_MEMORY, PERCENT)

    @property
    def achieved_occupancy(self) -> float | None:
        """Active warps, percent of those that fit."""
        return self._named(_OCCUPANCY, PERCENT)

    def _named(self, names: tuple[str, ...], unit: str) -> float | None:
        for name in names:
            for (_, own), metric in self.metrics.items():
                if own == name and metric.unit == unit and metric.value is not None:
                    return metric.value
        return None


# The name on the raw page, then those of ncu's versions on the details page, newest first.
_DURATION = ("gpu__time_duration.sum", "Duration")
_COMPUTE = (
    "sm__throughput.avg.pct_of_peak_sustained_elapsed",
    "Compute (SM) Throughput",
    "Compute (SM) [%]",
    "SM [%]",
    "SOL SM",
)
_MEMORY = (
    "gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed",
    "Memory Throughput",
    "Memory [%]",
    "SOL Memory",
)
_OCCUPANCY = ("sm__warps_active.avg.pct_of_peak_sustained_active", "Achieved Occupancy")


@dataclass(frozen=True, eq=False)
class KernelMetrics:
    """All launches of one report, in its order."""

    path: Path
    launches: tuple[Launch, ...]
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.launches)


HEADER = re.compile(r'^"?ID"?,.*"?Kernel Name"?,', re.MULTILINE)
"""The line with the names of the columns; output of the program and ncu comes before it."""

_ERROR = re.compile(r"^==ERROR== .*", re.MULTILINE)
_DESCRIBING = re.compile(
    "ID|Process ID|Process Name|Host Name|Kernel Name|Kernel Time|Context|Stream|Block Size"
    "|Grid Size|Device|CC|thread Domain:.*|Id:Domain:.*"
)
"""Columns of a launch, the last two of ``--nvtx``; every other one of a raw page is a metric."""


Cells: TypeAlias = Mapping[str, str]


_Draft: TypeAlias = tuple[Cells, dict[MetricKey, Metric]]
"""A launch: its describing columns, and its metrics."""


def parse(path: Path, text: str) -> KernelMetrics:
    """Every launch of one page; raises TraceError if there is no page or no launch in it."""
    header = HEADER.search(text)
    if header is None:
        if error := _ERROR.search(text):
            words = printable(error.group())[:200]
            raise TraceError(f"{path} holds no metrics, ncu failed: {words}")
        raise TraceError(
            f"{path} is not CSV from ncu: it has no header with ID and Kernel Name; create it "
            "with: ncu --import REPORT --csv --page raw"
        )
    try:
        rows = [row for row in csv.reader(text[header.start() :].splitlines(keepends=True)) if row]
    except csv.Error as error:
        raise TraceError(f"cannot read {path}: it is damaged: {error}") from error
    columns, body = rows[0], [row for row in rows[1:] if not row[0].startswith("==")]
    if len(set(columns)) < len(columns):
        raise TraceError(f"cannot read {path}: a column stands twice in its header")
    is_details = "Metric Name" in columns
    drafts, torn = _details(columns, body) if is_details else _raw(columns, body)
    if not drafts:
        raise TraceError(f"{path} holds no kernels: ncu profiled none; see its options -k and -c")
    warnings = (f"{torn} rows are cut off and were not read",) if torn else ()
    launches = [
        Launch(cells.get("ID", ""), cells.get("Kernel Name", ""), cells.get("CC", ""), metrics)
        for cells, metrics in drafts
    ]
    return KernelMetrics(path, tuple(launches), warnings)


def _details(columns: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[list[_Draft], int]:
    """Rules have rows of their own, without a metric; rows of metrics end before the rules'."""
    needed = columns.index("Metric Name")
    if "Metric Value" in columns:
        needed = max(needed, columns.index("Metric Value"))
    whole = [dict(zip(columns, row, strict=False)) for row in body if len(row) > needed]
    mark = decimal_mark(cells.get("Metric Value", "") for cells in whole)
    drafts: dict[tuple[str, ...], _Draft] = {}
    for cells in whole:
        identity = tuple(cells.get(column, "") for column in ("ID", "Process ID", "Kernel Name"))
        _, metrics = drafts.setdefault(identity, (cells, {}))
        if name := cells["Metric Name"]:
            section = cells.get("Section Name", "")
            metric = _metric(cells.get("Metric Value", ""), cells.get("Metric Unit", ""), mark)
            metrics.setdefault((section, name), metric)
    return list(drafts.values()), len(body) - len(whole)


def _raw(columns: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[list[_Draft], int]:
    """The first row holds the units, and no ID."""
    units: Cells = {}
    if body and not body[0][0].strip():
        units, body = dict(zip(columns, body[0], strict=False)), body[1:]
    whole = [dict(zip(columns, row, strict=False)) for row in body if len(row) >= len(columns)]
    metrics = [name for name in columns if name and not _DESCRIBING.fullmatch(name)]
    mark = decimal_mark(cells[name] for cells in whole for name in metrics)
    drafts: list[_Draft] = [
        (cells, {("", name): _metric(cells[name], units.get(name, ""), mark) for name in metrics})
        for cells in whole
    ]
    return drafts, len(body) - len(whole)


def _metric(text: str, unit: str, mark: str) -> Metric:
    normal = unit_of(unit)
    return Metric(number(text, mark, normal), normal.name, text)


_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)


def is_ncu(first_bytes: bytes) -> bool:
    """Whether a file with these first bytes is a report of ncu, or CSV whose header is in them."""
    return first_bytes.startswith(MAGIC) or HEADER.search(_text(first_bytes)) is not None


def load_ncu(path: Path) -> KernelMetrics:
    """Load CSV of ``ncu --csv`` (pages ``details`` and ``raw``) or an ``.ncu-rep``.

    Output of the program and ncu around the CSV is skipped. Values are not combined over passes or
    launches; they are only converted to ns, byte, Hz and byte/s. A report needs ``ncu`` on PATH.

    Raises TraceError, which says what to do, if the file cannot be read, holds no page of ncu or no
    kernel, or is a report that ncu is needed for and cannot read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    if data.startswith(MAGIC):
        return parse(path, csv_of_report(path))
    return parse(path, _text(data))


def _text(data: bytes) -> str:
    """Decode the file: PowerShell redirects output as UTF-16."""
    encoding = "utf-16" if data.startswith(_UTF16) else "utf-8-sig"
    return data.decode(encoding, "replace")
