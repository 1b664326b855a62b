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


_NS = {"second": 10**9, "s": 10**9, "msecond": 10**6, "ms": 10**6}
_NS |= {"usecond": 10**3, "us": 10**3, "nsecond": 1, "ns": 1}
_PERCENT = {"%": 1}
"""Factors by unit, for ns and for a share of the peak."""


def number(text: str, mark: str = ".", factor: int = 1) -> float | None:
    """The value of a cell times ``factor``, None for ``n/a``, ``nan``, infinities and words."""
    plain = _SPACES.sub("", _INSTANCES.sub("", text))
    if mark == ",":
        plain = plain.translate(str.maketrans(",.", ".,"))
    if not _NUMBER.fullmatch(plain):
        return None
    # Decimal: 1.006528 ms times a million is 1006528.0000000001 in floats.
    value = float(Decimal(plain.replace(",", "")) * factor)
    return value if math.isfinite(value) else None


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


@dataclass(frozen=True)
class Launch:
    """One launch of a kernel. Values that ncu did not measure are None."""

    name: str
    duration: float | None = None
    """Duration of the kernel under ncu in ns: clocks fixed, caches flushed by default."""
    compute_throughput: float | None = None
    """Busiest compute unit, percent of peak."""
    memory_throughput: float | None = None
    """Busiest memory unit, percent of peak."""
    achieved_occupancy: float | None = None
    """Active warps, percent of those that fit."""


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


_Draft: TypeAlias = tuple[str, dict[tuple[str, str], tuple[str, str]]]
"""A launch: the kernel's name, and text and unit of each metric by section and name. ``Memory
Throughput`` is a share of the peak in one section, a rate in another; the raw page and
``--metrics`` have no sections."""


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
    drafts, mark, torn = _details(columns, body) if is_details else _raw(columns, body)
    if not drafts:
        raise TraceError(f"{path} holds no kernels: ncu profiled none; see its options -k and -c")
    warnings = (f"{torn} rows are cut off and were not read",) if torn else ()
    return KernelMetrics(path, tuple(_launch(*draft, mark) for draft in drafts), warnings)


def _launch(name: str, metrics: Mapping[tuple[str, str], tuple[str, str]], mark: str) -> Launch:
    def first(names: tuple[str, ...], factors: Mapping[str, int]) -> float | None:
        cells = (cell for own in names for (_, one), cell in metrics.items() if one == own)
        values = (number(text, mark, factors[unit]) for text, unit in cells if unit in factors)
        return next((value for value in values if value is not None), None)

    shares = (first(names, _PERCENT) for names in (_COMPUTE, _MEMORY, _OCCUPANCY))
    return Launch(name, first(_DURATION, _NS), *shares)


def _details(
    columns: Sequence[str], body: Sequence[Sequence[str]]
) -> tuple[list[_Draft], str, int]:
    """Rules have rows of their own, without a metric; rows of metrics end before the rules'."""
    needed = columns.index("Metric Name")
    if "Metric Value" in columns:
        needed = max(needed, columns.index("Metric Value"))
    whole = [dict(zip(columns, row, strict=False)) for row in body if len(row) > needed]
    mark = decimal_mark(cells.get("Metric Value", "") for cells in whole)
    drafts: dict[tuple[str, ...], _Draft] = {}
    for cells in whole:
        identity = tuple(cells.get(column, "") for column in ("ID", "Process ID", "Kernel Name"))
        _, metrics = drafts.setdefault(identity, (cells.get("Kernel Name", ""), {}))
        if name := cells["Metric Name"]:
            cell = cells.get("Metric Value", ""), cells.get("Metric Unit", "").strip()
            metrics.setdefault((cells.get("Section Name", ""), name), cell)
    return list(drafts.values()), mark, len(body) - len(whole)


def _raw(columns: Sequence[str], body: Sequence[Sequence[str]]) -> tuple[list[_Draft], str, int]:
    """The first row holds the units, and no ID."""
    units: Mapping[str, str] = {}
    if body and not body[0][0].strip():
        units, body = dict(zip(columns, body[0], strict=False)), body[1:]
    whole = [dict(zip(columns, row, strict=False)) for row in body if len(row) >= len(columns)]
    metrics = [name for name in columns if name and not _DESCRIBING.fullmatch(name)]
    mark = decimal_mark(cells[name] for cells in whole for name in metrics)
    drafts: list[_Draft] = [
        (
            cells.get("Kernel Name", ""),
            {("", name): (cells[name], units.get(name, "").strip()) for name in metrics},
        )
        for cells in whole
    ]
    return drafts, mark, len(body) - len(whole)


def is_ncu(first_bytes: bytes) -> bool:
    """Whether a file with these first bytes is a report of ncu, or CSV whose header is in them."""
    return first_bytes.startswith(MAGIC) or HEADER.search(_text(first_bytes)) is not None


def load_ncu(path: Path) -> KernelMetrics:
    """Load CSV of ``ncu --csv`` (pages ``details`` and ``raw``) or an ``.ncu-rep``.

    Output of the program and ncu around the CSV is skipped. Values are not combined over passes or
    launches. A report needs ``ncu`` on PATH.

    Raises TraceError, which says what to do, if the file cannot be read, holds no page of ncu or no
    kernel, or is a report that ncu is needed for and cannot read.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise TraceError(f"cannot read {path}: {error.strerror or error}") from error
    return parse(path, csv_of_report(path)) if data.startswith(MAGIC) else parse(path, _text(data))


def _text(data: bytes) -> str:
    """Decode the file: PowerShell redirects output as UTF-16."""
    encoding = (
        "utf-16" if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)) else "utf-8-sig"
    )
    return data.decode(encoding, "replace")
