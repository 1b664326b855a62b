"""Pages as a browser reads them, and the runs and traces that they are about."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

from perftui.experiments.journal import Proof, ProvenPair, write_proof
from perftui.experiments.trial_verdict import Outcome
from perftui.report.html.page import render
from perftui.report.report import Report, make_report
from perftui.report.subject import load_subject
from perftui.run.layout import trials_of
from tests.traces.builder import TraceBuilder, ms, us
from tests.tui.recorded import ENDED, START, write_run

VOID = ("meta", "br", "col")


@dataclass
class Node:
    """One element."""

    tag: str
    attributes: dict[str, str]
    children: list[Node | str] = field(default_factory=list)

    @property
    def text(self) -> str:
        """All text in it."""
        return "".join(one if isinstance(one, str) else one.text for one in self.children)

    @property
    def kinds(self) -> list[str]:
        """Its classes."""
        return self.attributes.get("class", "").split()

    def every(self, tag: str = "", kind: str = "") -> Iterator[Node]:
        """The elements within, those of a tag or a class."""
        for one in self.children:
            if isinstance(one, Node):
                if (not tag or one.tag == tag) and (not kind or kind in one.kinds):
                    yield one
                yield from one.every(tag, kind)

    def only(self, tag: str = "", kind: str = "") -> Node:
        """The one element of that tag or class."""
        (found,) = self.every(tag, kind)
        return found


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.open = [Node("", {})]

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        node = Node(tag, {name: value or "" for name, value in attrs})
        self.open[-1].children.append(node)
        if tag not in VOID:
            self.open.append(node)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open[-1].children.append(Node(tag, {name: value or "" for name, value in attrs}))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop().tag == tag

    def handle_data(self, data: str) -> None:
        # Ends of lines between elements are those of the template.
        if data.strip() or "\n" not in data:
            self.open[-1].children.append(data)


def read(text: str) -> Node:
    """The page; fails where an element is not closed or closes another."""
    reader = _Reader()
    reader.feed(text)
    reader.close()
    (root,) = reader.open
    return root


def section(page: Node, heading: str) -> Node:
    """The section below a heading that begins so."""
    found = (one for one in page.every("section") if next(one.every("h2")).text.startswith(heading))
    return next(found)


def cells(table: Node) -> list[list[str]]:
    """The texts of a table's body, without what is drawn in it."""
    rows = next(table.every("tbody")).every("tr")
    return [[_beside_drawings(cell) for cell in row.every("td")] for row in rows]


def _beside_drawings(node: Node) -> str:
    """The text, without that of bars."""
    if "strip" in node.kinds:
        return ""
    return "".join(one if isinstance(one, str) else _beside_drawings(one) for one in node.children)


NASTY = "</script><img src=x onerror=alert(1)>"


def of(path: Path) -> tuple[Report, Node]:
    """The report of a run or trace, and its page."""
    report = make_report(load_subject(path))
    return report, read(render(report))


def gpu_trace(path: Path, name: str = "gemm") -> Path:
    """Five steps that wait for data, compute, copy and wait for the GPU."""

    def step(trace: TraceBuilder) -> None:
        trace.step().data_wait(ms(5)).forward()
        trace.op(f"aten::{name}").launch(name, ms(3)).close().close()
        trace.launch("ncclDevKernel_AllReduce", ms(1), stream=20).sync().end()

    return TraceBuilder().repeat(5, step).write(path)


def run_with_fix(folder: Path) -> Path:
    """A run that waits for its loader, whose fix is written as a patch and was measured."""
    script = folder / "train.py"
    script.write_text(
        "from torch.utils.data import DataLoader\n\n\ndef loader(pictures):\n"
        "\treturn DataLoader(pictures, batch_size=128, shuffle=True)\n"
    )
    os.utime(script, ns=(START - 10**9, START - 10**9))
    root = write_run(folder / "runs", script=script, loader_line=5, **ENDED)
    said, pairs = "2.10x faster (2.00 to 2.20)", (ProvenPair(2, 1),) * 6
    proof = Proof("loader-workers", "num_workers 0 -> 4", Outcome.FASTER, said, pairs, 1, 2.1)
    write_proof(proof, trials_of(root))
    return root


def many_events(path: Path) -> Path:
    """One step of 4,000 operators and as many kernels."""
    trace = TraceBuilder().step().forward()
    for at in range(4_000):
        trace.op(f"aten::op{at % 7}").launch(f"kernel{at % 5}", us(3)).close()
    return trace.close().sync().end().write(path)
