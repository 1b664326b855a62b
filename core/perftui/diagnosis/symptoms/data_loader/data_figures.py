"""The numbers behind a wait for data."""

from __future__ import annotations

from perftui import format as fmt
from perftui.diagnosis.limits import Limits
from perftui.diagnosis.model import Figure
from perftui.facts.cpu.machine import machine_use
from perftui.facts.data_loader.input_wait import InputWait
from perftui.facts.data_loader.loader import LoaderFacts, training_loader
from perftui.facts.data_loader.loader_work import LoaderWork, fetch_cpu, loader_work
from perftui.facts.data_loader.worker_lines import loader_lines
from perftui.facts.fact import Facts
from perftui.facts.place import Place
from perftui.facts.source.lines import LinesByTime, main_batches
from perftui.facts.step.steps import batches_ready, wait_p95

MOST_LINES = 3
"""Lines that a finding lists; all are below it."""

LEAST_NAMED = 0.25
"""Share of making batches that a line must have to be named in the sentence of a finding."""


def wait(found: InputWait, facts: Facts, limits: Limits) -> list[Figure]:
    """The wait itself, and what making batches takes."""
    share = found.wait / found.of.mean if found.of.mean else 0.0
    figures = [
        Figure.share("data loader wait", share, limits.warning),
        Figure("mean wait", found.wait, "ns"),
        Figure("mean step", found.of.mean, "ns"),
        Figure("steady steps", found.of.count, "count"),
    ]
    if found.host:
        figures.insert(2, Figure("of the training thread", found.host, "ns"))
    if not found.of.of_run:
        return figures
    cpu, made, p95 = fetch_cpu(facts), loader_work(facts), wait_p95(facts)
    if cpu is not None:
        figures.append(Figure.share("CPU use while fetching", cpu))
    if made is not None:
        figures += _work(made)
    if p95 is not None:
        figures.append(Figure("95 % of waits are below", p95, "ns"))
    return figures


def _work(made: LoaderWork) -> list[Figure]:
    figures = [
        Figure("fetching a batch", made.fetch, "ns"),
        Figure("collating a batch", made.collate, "ns"),
    ]
    if made.busy is not None:
        figures.append(Figure.share("workers busy", made.busy))
    if made.batch_bytes:
        figures.append(Figure("tensors of a batch", made.batch_bytes, "B"))
    return figures


def loader_in_main(facts: Facts) -> list[Figure]:
    """A loader without workers: its lines, and where it is made."""
    feeds = training_loader(facts)
    figures = [*workers(facts), *_lines(main_batches(facts), facts)]
    if feeds and feeds.dataset:
        figures.append(Figure("dataset", feeds.dataset))
    if feeds and feeds.source:
        figures.append(Figure("loader made at", feeds.source, place=_made_at(feeds, facts)))
    return [*figures, *_cores(facts)]


def loader_of_workers(facts: Facts) -> list[Figure]:
    """A loader with workers: their lines, its queue, and what they take of the machine."""
    figures = workers(facts)
    lines, ready, host = loader_lines(facts), batches_ready(facts), machine_use(facts)
    if lines is not None:
        figures += _lines(lines.making, facts)
    if ready is not None:
        figures.append(Figure("batches ready, median", ready, "count"))
    if host.workers_cores is not None:
        figures.append(Figure("cores used by workers", round(host.workers_cores, 1)))
    if host.workers_read is not None:
        figures.append(Figure("read by workers in a second", round(host.workers_read), "B"))
    if host.tree_cores is not None:
        figures.append(Figure("cores used by the training", round(host.tree_cores, 1)))
    return [*figures, *_cores(facts)]


def workers(facts: Facts) -> list[Figure]:
    """The loader's number of workers, where it is known, at the line that makes the loader."""
    feeds = training_loader(facts)
    if feeds is None or feeds.num_workers is None:
        return []
    return [Figure("num_workers", feeds.num_workers, "count", place=_made_at(feeds, facts))]


def named_line(lines: LinesByTime | None) -> str:
    """``71 % of it at train.py:6``, empty where no line of the user's stands out."""
    first = lines.lines[0] if lines and lines.lines else None
    if lines is None or first is None or not first.file or lines.share(first) < LEAST_NAMED:
        return ""
    return f"{fmt.percent(lines.share(first))} of it at {first.short}"


def _made_at(feeds: LoaderFacts, facts: Facts) -> Place:
    return facts.at(feeds)


def _lines(lines: LinesByTime | None, facts: Facts) -> list[Figure]:
    """The lines of the user's code that making batches takes longest at, as shares of that."""
    if lines is None:
        return []
    own = [line for line in lines.listed if line.file][:MOST_LINES]
    places = [facts.at(line) for line in own]
    return [
        Figure.share("making batches", lines.share(line), place=place)
        for line, place in zip(own, places, strict=True)
    ]


def _cores(facts: Facts) -> list[Figure]:
    """The cores the training may use, where they are known."""
    cores = machine_use(facts).cores
    return [] if cores is None else [Figure("cores", cores, "count")]
