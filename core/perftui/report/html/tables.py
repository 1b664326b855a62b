"""The tables of a page: the mean step, ranks, lines, operators, kernels, and the recording."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from perftui import format as fmt
from perftui.analysis.kernels.names import short_names
from perftui.facts.fact import Facts
from perftui.facts.gpu import memory
from perftui.facts.gpu.host_waits import SyncCall, SyncCalls, syncs
from perftui.facts.ranks.rank_table import RankRow, RankTable
from perftui.facts.source.lines import LinesByTime, LineShare
from perftui.facts.step.steps import StepBreakdown, device_phases
from perftui.report.html.element import Element, Node, element, number, section
from perftui.report.html.timeline import Box, key, legend, strip
from perftui.report.kernel_metrics import LEGEND, TraceMetrics, TraceRow, rate
from perftui.report.ranks import table_of_ranks
from perftui.report.recorded import MEMORY_TITLE, memory_rows, phases_title, recording_lines
from perftui.report.report import MOST_ROWS, OpRow, Report, Totals, listed_modules
from perftui.report.wording import NO_GPU, breakdown_rows, breakdown_title, thread_lines
from perftui.run.columns import phase_name

UNKNOWN = "–"


def operators(report: Report) -> Element | None:
    """Operators, longest first; None without any."""
    return _operators(report, "operator", report.ops[: report.top or MOST_ROWS], "operators")


def modules(report: Report) -> Element | None:
    """Modules, longest own time first; None without any."""
    return _operators(
        report, "module", listed_modules(report.modules, report.top or MOST_ROWS), "modules"
    )


def _operators(report: Report, head: str, rows: tuple[OpRow, ...], kind: str) -> Element | None:
    totals = report.totals.get(kind)
    if not rows or totals is None:
        return None
    on_device = bool(report.facts.analysis and report.facts.analysis.has_gpu)
    whole = _longest(totals, on_device=on_device)
    body = []
    for row in rows:
        share = (row.device if on_device else row.cpu_own or 0) / whole
        times = _times(row.cpu_own, row.device, on_device=on_device)
        body.append(table_row(named(row.name, row.name, share), f"{row.calls:,}", *times))
    if totals.rows > len(rows):
        times = _times(totals.cpu_own, totals.device, on_device=on_device)
        body.append(table_row(f"all {totals.rows:,}", f"{totals.calls:,}", *times, whole=True))
    return table((head, "calls", "own CPU", *(["device"] if on_device else [])), body)


def _times(own: int | None, device: int, *, on_device: bool) -> tuple[str, ...]:
    """The cells of an operator; without a GPU none for that."""
    return (fmt.duration(own or 0), *([_device(device)] if on_device else []))


def kernels(report: Report) -> Element | None:
    """Kernels and copies, longest first; None without any."""
    rows, totals = report.kernels[: report.top or MOST_ROWS], report.totals.get("kernels")
    if not rows or totals is None:
        return None
    names, whole = short_names(row.name for row in rows), _longest(totals, on_device=True)
    body = []
    for row in rows:
        name = named(names[row.name], row.name, row.device / whole)
        body.append(table_row(name, f"{row.calls:,}", _device(row.device)))
    if totals.rows > len(rows):
        device = _device(totals.device)
        body.append(table_row(f"all {totals.rows:,}", f"{totals.calls:,}", device, whole=True))
    return table(("kernel or copy", "calls", "device"), body)


def table(heads: Sequence[str], rows: Sequence[Element], *, numbers: bool = True) -> Element:
    """A table whose columns but the first stand at the right, as numbers do; without ``numbers``
    all of it is text and takes no more room than it needs."""
    titles = (
        element("th", head, class_="n" if at and numbers else None, scope="col")
        for at, head in enumerate(heads)
    )
    head = element("thead", element("tr", *titles))
    kind = "wide" if numbers else "narrow"
    return element("table", head, element("tbody", *rows), class_=kind)


def named(shown: str, full: str, share: float) -> Element:
    """A name with a bar below it; the whole of a short name is its tooltip."""
    width = f"width:{number(100 * min(share, 1.0))}%"
    bar = element("span", element("i", style=width), class_="meter")
    told = element("span", fmt.percent(share), class_="dim")
    name = element("code", shown, title=full if full != shown else None)
    return element("div", name, element("div", bar, told, class_="share"))


def table_row(first: Node, *others: str, whole: bool = False) -> Element:
    """A row of a table; ``whole`` is the one of all of it."""
    cells = (element("td", text, class_="n") for text in others)
    return element("tr", element("td", first), *cells, class_="whole" if whole else None)


def _longest(totals: Totals, *, on_device: bool) -> int:
    """What all rows take together, at least 1 ns."""
    return max(totals.device if on_device else totals.cpu_own or 0, 1)


def _device(ns: int) -> str:
    return fmt.duration(ns) if ns else UNKNOWN


def breakdown(found: StepBreakdown) -> Element:
    """The bar of one breakdown and its table, below a heading."""
    what, over = breakdown_title(found)
    bar = strip(part_boxes(found.parts), 0, max(found.mean, 1), what, "step")
    return section(what, bar, _table(found), over=over)


def part_boxes(parts: tuple[tuple[str, int], ...]) -> tuple[Box, ...]:
    """The parts one behind the other, from 0 on; those without time are left out."""
    boxes, at = [], 0
    for name, time in parts:
        if time:
            told = phase_name(name)
            boxes.append(Box(at, at + time, f"{told}, {fmt.duration(time)}", name, told))
        at += time
    return tuple(boxes)


def _table(found: StepBreakdown) -> Element:
    numbers = (element("th", name, class_="n") for name in ("time", "share"))
    head = element("thead", element("tr", element("th", "part"), *numbers))
    return element("table", head, element("tbody", *_rows(found)), class_="narrow")


def _rows(found: StepBreakdown) -> Iterator[Element]:
    kinds = [name for name, time in found.parts if time]
    for at, (name, time, share) in enumerate(breakdown_rows(found)):
        is_part = at < len(kinds)
        yield element(
            "tr",
            element("td", key(kinds[at]) if is_part else None, name),
            element("td", f"{time / 100:.2f} ms", class_="n"),
            element("td", f"{share / 10:.1f} %", class_="n"),
            class_=None if is_part else "whole",
        )


def lines(facts: Facts) -> Iterator[Element]:
    """A section for each list of lines, and one for the calls that wait for the GPU."""
    for title, thread in thread_lines(facts):
        yield section(title, _lines(thread))
    found = syncs(facts)
    if found is not None:
        over = fmt.several(found.steps, "profiled step")
        yield section(found.title, *_sync_calls(found), over=f"over {over}")


def _lines(thread: LinesByTime) -> Element:
    rows = [_line(line, thread.share(line)) for line in thread.listed]
    return table(("line", "function"), rows, numbers=False)


def _line(line: LineShare, share: float) -> Element:
    name = named(line.short if line.file else line.source, line.source, share)
    return element("tr", element("td", name), element("td", element("code", line.function)))


def _sync_calls(found: SyncCalls) -> Iterator[Element]:
    if not found.on_gpu:
        yield element("p", NO_GPU)
    if found.calls:
        rows = [_sync_call(call, found.steps) for call in found.calls]
        yield table(("call", "a step", "time a step", "longest"), rows)
    else:
        yield element("p", "None.")


def _sync_call(call: SyncCall, steps: int) -> Element:
    each = longest = UNKNOWN
    if call.time >= 0:
        each, longest = fmt.duration(call.time / steps), fmt.duration(call.longest)
    name = element("code", call.short, title=call.source)
    return table_row(name, f"{call.count / steps:.1f}", each, longest)


HEADS = ("kernel", "calls", "device", "compute", "memory", "occupancy", "limited by", "ncu/trace")


def measured(metrics: TraceMetrics | None) -> Element | None:
    """A section; None without metrics, and where none of the kernels is in the trace."""
    if metrics is None or not metrics.rows:
        return None
    names = short_names(row.name for row in metrics.rows)
    missing = [f"Not in the trace: {name}." for name in short_names(metrics.unmatched).values()]
    return section(
        metrics.title,
        # Eight columns are wider than a phone.
        element(
            "div",
            table(HEADS, [_metrics_row(row, names[row.name]) for row in metrics.rows]),
            class_="scroll",
        ),
        *(element("p", text, class_="dim") for text in (*LEGEND, *missing)),
    )


def _metrics_row(row: TraceRow, name: str) -> Element:
    figures = row.figures
    shares, limit = [UNKNOWN] * 3, "not measured by ncu"
    if figures is not None:
        shares = [rate(one) for one in (figures.compute, figures.memory, figures.occupancy)]
        limit = figures.limit.value if figures.limit else "not known"
    ratio = UNKNOWN if row.ratio is None else f"{row.ratio:.2f}x"
    shown = element("code", name, title=row.name if row.name != name else None)
    return table_row(shown, f"{row.calls:,}", fmt.duration(row.total_ns), *shares, limit, ratio)


def recorded(report: Report) -> Iterator[Element]:
    """A section for each that is known."""
    phases, use = device_phases(report.facts), memory.gpu_memory(report.facts)
    if phases is not None:
        times = ((name, fmt.duration(time)) for name, time in phases.parts)
        yield section(phases_title(phases), _pairs("phase", "time", times))
    if use is not None:
        yield section(MEMORY_TITLE, _pairs("memory", "size", memory_rows(use)))
    if report.recording is not None:
        lines = recording_lines(report.recording, report.facts)
        items = (element("li", line.strip()) for line in lines)
        yield section("Recording", element("ul", *items))


def _pairs(name: str, value: str, pairs: Iterable[tuple[str, str]]) -> Element:
    return table((name, value), [table_row(*pair) for pair in pairs])


FEWEST = 2


def ranks(facts: Facts) -> Element | None:
    """The table of ranks; None where one process trains."""
    found = table_of_ranks(facts)
    if len(found.rows) < FEWEST:
        return None
    kinds = dict.fromkeys(name for row in found.rows for name, time in row.parts if time)
    return element(
        "figure",
        table(_heads(found), [_rank_row(one, found) for one in found.rows]),
        legend(tuple(kinds)),
        element("figcaption", " ".join(f"{note[0].upper()}{note[1:]}." for note in found.notes))
        if found.notes
        else None,
    )


def _heads(found: RankTable) -> tuple[str, ...]:
    heads = ["rank and parts of its step", "mean step", "without waits"]
    if any(row.caused is not None for row in found.rows):
        heads.append("waits caused")
    if any(row.peak_memory is not None for row in found.rows):
        heads.append("GPU memory")
    return tuple(heads)


def _rank_row(row: RankRow, found: RankTable) -> Element:
    heads, known = _heads(found), bool(row.mean)
    cells = [_time(row.mean if known else None), _time(row.own if known else None)]
    if "waits caused" in heads:
        cells.append(_time(row.caused))
    if "GPU memory" in heads:
        cells.append(UNKNOWN if row.peak_memory is None else fmt.size(row.peak_memory))
    hosts, longest = (
        {one.host for one in found.rows if one.host},
        max(one.mean for one in found.rows),
    )
    name = f"rank {row.rank}" + (f" on {row.host}" if len(hosts) > 1 else "")
    slow = found.straggler if found.straggler and found.straggler.rank == row.rank else None
    late = f" {fmt.duration(slow.lag)} behind the others" if slow else None
    first = element(
        "td",
        name,
        element("strong", late) if late else None,
        strip(
            part_boxes(row.parts),
            0,
            max(1, longest),
            f"parts of the step of rank {row.rank}",
            "rank",
        ),
    )
    return element("tr", first, *(element("td", cell, class_="n") for cell in cells))


def _time(ns: int | None) -> str:
    return UNKNOWN if ns is None else fmt.duration(ns)
