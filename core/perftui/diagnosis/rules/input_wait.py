"""The wait for data that input rules judge, from the best evidence there is."""

from __future__ import annotations

from dataclasses import dataclass

from perftui import format as fmt
from perftui.analysis.model import GapCause
from perftui.diagnosis.evidence import Evidence
from perftui.diagnosis.model import Abstention, Confidence, Fact, Severity
from perftui.diagnosis.policy import Policy
from perftui.diagnosis.severity import (
    collected,
    confidence,
    more_steps,
    severity,
    supported,
    supported_by_trace,
    trace_confidence,
)
from perftui.facts.lines import LinesByTime
from perftui.facts.loader_work import LoaderWork
from perftui.facts.place import Place


@dataclass(frozen=True)
class InputWait:
    """Mean wait for data within a mean step, ns."""

    wait: int
    step: int
    steps: int
    """Steps the means are over; 0 for a trace without steps, judged whole."""
    from_run: bool
    """Measured in the training thread of a run, else read from a trace."""
    exposed: bool
    """Known to leave the device idle; on a GPU a host's wait alone may hide behind queued work."""
    host: int = 0
    """Mean wait of the training thread, ns, where part of it hides behind queued work; else 0."""

    @property
    def share(self) -> float:
        """Wait over step."""
        return self.wait / self.step if self.step else 0.0

    def words(self, subject: str) -> str:
        """``The training waits 21 ms of each 35 ms step (60 %) for data``; who waits longer than
        the GPU is not who is spoken of."""
        marked = self.from_run or self.steps
        part = (fmt.part_of_step if marked else fmt.part_of_trace)(self.wait, self.step)
        return f"{'The GPU' if self.host else subject} waits {part} for data"


def input_wait(evidence: Evidence, policy: Policy, rule: str) -> InputWait | Abstention:
    """The wait of the run's steady steps, else of the trace's.

    With a run and a trace that shows the device, the wait counts only as far as the device idles
    for it: a host that waits while queued kernels still run loses nothing.
    """
    trace = evidence.trace
    if evidence.manifest is None:
        return _of_trace(evidence, rule)
    share = collected(evidence, policy)
    if isinstance(share, str):
        return Abstention(rule, share)
    wait = share.part("input_wait")
    if trace and trace.has_gpu and trace.steps >= policy.warning_steps:
        idle = trace.part(GapCause.INPUT_WAIT.value) * share.mean // trace.step_ns
        host = wait if idle < wait else 0
        return InputWait(min(wait, idle), share.mean, share.count, True, True, host)
    return InputWait(wait, share.mean, share.count, True, evidence.has_gpu is False)


def _of_trace(evidence: Evidence, rule: str) -> InputWait | Abstention:
    trace = evidence.trace
    if trace is None:
        return Abstention(rule, "nothing has been recorded")
    name = GapCause.INPUT_WAIT.value if trace.has_gpu else "input_wait"
    return InputWait(trace.part(name), trace.step_ns, trace.steps, False, trace.has_gpu)


def judge(wait: InputWait, warning: float, policy: Policy) -> Severity | None:
    """Severity of ``wait``; a critical one needs enough steps."""
    found = severity(wait.share, warning, policy.input_critical)
    if found is None:
        return None
    return (supported if wait.from_run else supported_by_trace)(found, wait.steps, policy)


def sure(wait: InputWait, policy: Policy) -> Confidence:
    """Confidence in a finding about ``wait``."""
    if not wait.from_run:
        return trace_confidence(wait.steps, policy)
    found = confidence(wait.steps, policy)
    return found if wait.exposed or found is not Confidence.HIGH else Confidence.MEDIUM


def would_help(wait: InputWait, policy: Policy) -> str:
    """What would raise the confidence."""
    if wait.from_run and not wait.exposed:
        return "a profiled window that shows whether the GPU idles meanwhile"
    return more_steps(wait.steps, policy)


def facts(wait: InputWait, evidence: Evidence, warning: float) -> list[Fact]:
    """The evidence both input rules show."""
    found = [
        Fact("wait for data", round(100 * wait.share, 1), "%", 100 * warning),
        Fact("mean wait", wait.wait, "ns"),
        Fact("mean step", wait.step, "ns"),
        Fact("steady steps", wait.steps, "count"),
    ]
    if wait.host:
        found.insert(2, Fact("of the training thread", wait.host, "ns"))
    if evidence.fetch_cpu is not None and wait.from_run:
        found.append(Fact("CPU use while fetching", round(100 * evidence.fetch_cpu, 1), "%"))
    if evidence.work is not None and wait.from_run:
        found += _work_facts(evidence.work)
    if evidence.wait_p95 is not None and wait.from_run:
        found.append(Fact("95 % of waits are below", evidence.wait_p95, "ns"))
    return found


def _work_facts(work: LoaderWork) -> list[Fact]:
    found = [
        Fact("fetching a batch", work.fetch, "ns"),
        Fact("collating a batch", work.collate, "ns"),
    ]
    if work.busy is not None:
        found.append(Fact("workers busy", round(100 * work.busy, 1), "%"))
    if work.batch_bytes:
        found.append(Fact("tensors of a batch", work.batch_bytes, "B"))
    return found


def workers_fact(evidence: Evidence) -> list[Fact]:
    """The loader's number of workers, where it is known, at the line that makes the loader."""
    loader = evidence.loader
    if loader is None or loader.num_workers is None:
        return []
    place = Place(rank=evidence.rank, file=loader.file, line=loader.line)
    return [Fact("num_workers", loader.num_workers, "count", place=place)]


MOST_LINES = 3
"""Lines that a finding lists; all are below it."""


def line_facts(lines: LinesByTime | None, evidence: Evidence) -> list[Fact]:
    """The lines of the user's code that making batches takes longest at, as shares of that."""
    if lines is None:
        return []
    own = [line for line in lines.listed if line.file][:MOST_LINES]
    return [
        Fact(
            "making batches",
            round(100 * lines.share(line), 1),
            "%",
            place=Place(rank=evidence.rank, file=line.file, line=line.line),
        )
        for line in own
    ]


LEAST_NAMED = 0.25
"""Of making batches, for a line to be named in the sentence of a finding."""


def dearest(lines: LinesByTime | None) -> str:
    """``71 % of it at train.py:6``, empty where no line of the user's stands out."""
    first = lines.lines[0] if lines and lines.lines else None
    if lines is None or first is None or not first.file or lines.share(first) < LEAST_NAMED:
        return ""
    return f"{fmt.percent(lines.share(first))} of it at {first.short}"


def cores_fact(evidence: Evidence) -> list[Fact]:
    """The cores the training may use, where they are known."""
    cores = evidence.machine.cores
    return [] if cores is None else [Fact("cores", cores, "count")]


def fixes(wait: InputWait, evidence: Evidence) -> tuple[str, ...]:
    """What answers a wait for data: a known loader of a run can be changed, a trace's cannot."""
    loader = evidence.loader
    if loader is None or not wait.from_run:
        return ()
    if evidence.has_gpu and loader.pin_memory is False:
        return ("loader-workers", "loader-pin")
    return ("loader-workers",)
