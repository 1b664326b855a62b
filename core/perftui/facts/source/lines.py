"""Time by line of the user's code, from stack samples of a thread, and the main thread's lines.
Samples come at random moments, at exponentially distributed intervals, so the time from one sample
to the next is independent of what the sample found: its share is an unbiased estimate of the share
of the thread's time."""

from __future__ import annotations

import linecache
import re
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath

import numpy as np
import numpy.typing as npt

from perftui.analysis.intervals import union
from perftui.facts.fact import Facts, fact
from perftui.facts.step.steps import run_is_over, steady_rows, steady_step, step_kind
from perftui.run.columns import stack_rate_of
from perftui.run.table import Table
from perftui.trace.model import Int64
from perftui.trace.text import printable

FEWEST_SAMPLES = 30
"""With so many, a share of one half is off by at most 26 % of the whole 19 times in 20: its
standard deviation is ``sqrt(2 p (1 - p) / n)``, twice the variance of counted samples."""

FEWEST_TO_NAME = 5
"""Fewest samples to name a line: fewer may be chance."""

FEWEST_AGREEING = 3
"""Samples that name a line if all of them found it: for a line with a third of the time that
happens by chance once in 27 times."""

MOST_LINES = 8

LEAST_SHARE = 0.005
"""Share of the time from which a line is listed."""


@dataclass(frozen=True)
class LineShare:
    """How long a thread was at a line."""

    file: str
    """Empty if no line of the user's own was on the stack; safe to show, like the other texts."""
    line: int
    function: str = ""
    inner: str = ""
    """The frame that was innermost for most of that time."""
    held: int = 0
    """Time in ns; 0 if no sample was there and only the text of the line was found."""

    @property
    def source(self) -> str:
        """``file:line``, or a note that no user line was on the stack."""
        return f"{self.file}:{self.line}" if self.file else f"no line of yours ({self.inner})"

    @property
    def short(self) -> str:
        """File name and line, without directories."""
        return f"{PurePath(self.file).name}:{self.line}" if self.file else self.inner


@dataclass(frozen=True)
class LinesByTime:
    """Lines by time, longest first; together they may be less than ``covered``."""

    lines: tuple[LineShare, ...]
    covered: int
    """ns that the samples stand for."""
    samples: int
    """Number of samples: estimated from the time, exact in gaps."""

    @property
    def listed(self) -> tuple[LineShare, ...]:
        """Lines worth a row: those with ``LEAST_SHARE`` of the time."""
        return tuple(line for line in self.lines if self.share(line) >= LEAST_SHARE)

    @property
    def first_own(self) -> LineShare | None:
        """The longest line of the user's own code."""
        return next((line for line in self.lines if line.file), None)

    def standing_out(self, least: float) -> LineShare | None:
        """The longest line, if it is the user's own and has a share of ``least``."""
        line = self.lines[0] if self.lines else None
        return line if line and line.file and self.share(line) >= least else None

    def named(self, least: float) -> tuple[LineShare | None, str]:
        """The user's longest line, ``at train.py:6``, or else that of the longest function, with
        the time of all its lines: the one with ``least`` ns."""
        if (first := self.first_own) and first.held >= least:
            return first, f"at {first.short}"
        spent, longest = Counter[tuple[str, str]](), dict[tuple[str, str], LineShare]()
        for line in (line for line in self.lines if line.file):
            key = line.file, line.function.partition(".<locals>.<")[0]
            spent[key] += line.held
            longest.setdefault(key, replace(line, function=key[1]))
        for key, held in spent.most_common(1):
            line = replace(longest[key], held=held)
            return (line, f"in {line.function} ({line.short})") if held >= least else (None, "")
        return None, ""

    @property
    def suffices(self) -> bool:
        """Whether there are enough samples to name the first line."""
        agree = bool(self.lines) and self.lines[0].held == self.covered
        return self.samples >= (FEWEST_AGREEING if agree else FEWEST_TO_NAME)

    def share(self, line: LineShare) -> float:
        """Share of ``line`` in the covered time, 0 to 1."""
        return line.held / self.covered if self.covered else 0.0


def lines_by_time(stacks: Table, time: Int64, samples: int | None = None) -> LinesByTime:
    """Time by line over rows of ``stacks``, each of which stands for ``time`` ns.

    Without ``samples`` their number is estimated from the time."""
    if not len(stacks):
        return LinesByTime((), 0, 0)
    if samples is None:
        every: Int64 = np.maximum(stacks["every"], 1)
        periods = np.unique(every).tolist()
        samples = sum(int(time[every == period].sum()) // period for period in periods)
    return LinesByTime(_by_line(stacks, time), int(time.sum()), samples)


def _by_line(stacks: Table, times: Int64) -> tuple[LineShare, ...]:
    inner: defaultdict[tuple[str, int, str], Counter[str]] = defaultdict(Counter)
    rows = np.flatnonzero(times > 0)
    columns = [stacks[name][rows].tolist() for name in ("file", "line", "function", "inner")]
    for file, line, function, innermost, time in zip(*columns, times[rows].tolist(), strict=True):
        inner[file, line, function][innermost] += time
    lines = sorted(inner.items(), key=lambda item: (-item[1].total(), item[0]))[:MOST_LINES]
    return tuple(
        LineShare(
            printable(str(file)),
            line,
            printable(str(function)),
            printable(str(frames.most_common(1)[0][0])),
            frames.total(),
        )
        for (file, line, function), frames in lines
    )


@fact
def stack_samples(facts: Facts) -> tuple[Table, Table]:
    """Samples of the main thread's stack, by ``STACK_COLUMNS``: those taken by py-spy from outside,
    and those taken by the agent from inside, in windows."""
    if facts.run is None or facts.rank is None:
        return Table(), Table()
    outside = facts.rank.stacks
    if "every" not in outside and len(outside):
        # An older run has a single rate for all samples.
        every = 1_000_000_000 // max(stack_rate_of(facts.run.manifest.profile), 1)
        column: Int64 = np.full(len(outside), every, dtype=np.int64)
        outside = Table(outside.columns, {**outside.values, "every": column})
    return outside, facts.rank.window_stacks


@fact
def steady_held(facts: Facts) -> Int64:
    """ns within the steady steps that each outside sample stands for; its whole time in an ended
    run without steps."""
    outside, _ = stack_samples(facts)
    if len(outside) and is_without_steps(facts):
        return np.asarray(outside["held"], np.int64)
    return _time_within(outside, steady_rows(facts))


@fact
def sampled(facts: Facts) -> tuple[Table, Int64]:
    """Samples of the main thread's stack and the ns each stands for: within the steady steps, or
    all of its time if there are only inside samples, as those come in windows."""
    outside, inside = stack_samples(facts)
    if len(outside):
        return outside, steady_held(facts)
    return inside, np.asarray(inside["held"] if len(inside) else [], np.int64)


@fact
def is_without_steps(facts: Facts) -> bool:
    """Whether the run has ended without judgeable steps."""
    return run_is_over(facts) and steady_step.or_none(facts) is None


@fact
def main_thread(facts: Facts) -> LinesByTime | None:
    """Lines of the main thread over the steady steps; None with too few samples."""
    outside, _ = stack_samples(facts)
    return _if_enough(outside, steady_held(facts))


@fact
def window_thread(facts: Facts) -> LinesByTime | None:
    """Lines of the main thread over steps with or after an open window, sampled from inside; None
    with too few samples or with outside samples."""
    (outside, inside), steps = stack_samples(facts), facts.steps
    if len(outside) or "profiled" not in steps:
        return None
    profiled = steps.where((steps["profiled"] != 0) & (steps["kind"] == step_kind(facts)))
    return _if_enough(inside, _time_within(inside, profiled))


def lines_within(
    facts: Facts, choose: Callable[[Table], npt.NDArray[np.bool_]], fewest: int = FEWEST_SAMPLES
) -> LinesByTime | None:
    """Where the main thread was at the samples of the steady steps that ``choose`` selects, as a
    share of all; None if there are fewer than ``fewest`` in all, or none there."""
    outside, _ = stack_samples(facts)
    if not len(outside):
        return None
    time = steady_held(facts)
    whole = lines_by_time(outside, time)
    chosen = lines_by_time(outside, np.where(choose(outside), time, 0))
    if whole.samples < fewest or not chosen.lines:
        return None
    return LinesByTime(chosen.lines, whole.covered, chosen.samples)


def at_frames(pattern: re.Pattern[str]) -> Callable[[Table], npt.NDArray[np.bool_]]:
    """Select samples whose innermost frame has ``pattern``."""
    return lambda stacks: np.array([bool(pattern.search(str(it))) for it in stacks["inner"]], bool)


def _time_within(stacks: Table, steps: Table) -> Int64:
    """ns within ``steps`` that each sample stands for."""
    if not len(stacks) or not len(steps):
        return np.zeros(len(stacks), dtype=np.int64)
    during = union(steps["start"], steps["start"] + steps["duration"])
    return during.within(stacks["time"], stacks["time"] + stacks["held"])


def _if_enough(stacks: Table, time: Int64) -> LinesByTime | None:
    lines = lines_by_time(stacks, time)
    return lines if lines.samples >= FEWEST_SAMPLES else None


LONGEST_SOURCE = 4 << 20
"""Largest file, in bytes, read for its lines; no script of a person is longer."""

WRITING = "writing files"

SLEEPING = "sleeping"
SUBPROCESS = "a subprocess"
REQUEST = "a network request"
POOL = "waiting for a pool of workers"
WAITING = (SLEEPING, SUBPROCESS, REQUEST, POOL)
"""Activities during which a thread does not wait for Python's lock."""

LOOP = "a loop in Python"
"""A loop of unknown content: it may only call operators."""

_CALLED = tuple(
    (words, re.compile(marks))
    for words, marks in (
        (SUBPROCESS, r"/(subprocess|pty)\.py\b|^multiprocessing/(process|popen)"),
        (POOL, r"\b(multiprocessing/pool|concurrent/futures/\w+|joblib/parallel)\b"),
        (REQUEST, r"^(requests|urllib3|httpx|httpcore|aiohttp|boto\w*|smart_open)/"),
        (REQUEST, r"\b(urllib|http)/|/(socket|ssl)\.py\b"),
        ("reporting to Weights & Biases", r"^(wandb|wandb_\w+)/"),
        ("reporting to an experiment tracker", r"^(mlflow|comet_ml|neptune|clearml|aim|dvclive)/"),
        ("writing TensorBoard summaries", r"tensorboard"),
        ("work with images", r"^(PIL|imageio|skimage|torchvision)/"),
        ("drawing with matplotlib", r"^(matplotlib|seaborn|plotly|mpl_toolkits)/"),
        ("work with pandas", r"^(pandas|polars|pyarrow)/"),
        ("computing with SciPy", r"^scipy/"),
        ("metrics of scikit-learn", r"^(sklearn|torchmetrics|nltk|sacrebleu|rouge\w*)/"),
        ("a progress bar", r"^(tqdm|rich|progressbar|alive_progress)/"),
        ("writing logs", r"\blogging/|^(loguru|structlog|absl/logging)\b|/csv\.py\b"),
        ("writing JSON", r"\bjson/|^(orjson|simplejson|yaml|ruamel)\b"),
        ("copying objects (copy.deepcopy)", r"/copy\.py\b|__deepcopy__"),
        ("regular expressions", r"/(re|sre_\w+)(/|\.py)|^regex/"),
        ("statistics in Python", r"/(statistics|fractions|decimal)\.py\b"),
        ("work with NumPy", r"^numpy/"),
        ("pickling", r"/pickle\.py\b|^(cloudpickle|dill)/"),
        ("writing tensors out as text", r"^torch/_tensor_str\b|Tensor\.__(format|repr|str)__"),
        (WRITING, r"/(shutil|tempfile)\b"),
        ("work with files", r"/(zipfile|tarfile|gzip|pathlib)\b"),
        ("hashing", r"/hashlib\.py\b"),
    )
)
"""Activities by file and function that the line calls; the first match counts."""

_TEXT = tuple(
    (words, re.compile(marks))
    for words, marks in (
        (SLEEPING, r"\b(sleep|usleep|pause_for|wait_until)\("),
        (SUBPROCESS, r"\bsubprocess\.|\bos\.(system|popen)\(|\bcheck_output\("),
        ("collecting garbage", r"\bgc\.collect\("),
        ("printing", r"\bprint\(|\b(stdout|stderr)\.(write|flush)\("),
        ("writing logs", r"\b(log|logger|logging|writer|log_file)\.\w+\(|\.flush\("),
        (WRITING, r"\bfsync\("),
        (WRITING, r"\.(write|write_text|write_bytes|writelines|writerow)\("),
        (WRITING, r"\bopen\(.*['\"][wax]b?['\"]"),
        ("work with files", r"\bopen\("),
        ("copying objects (copy.deepcopy)", r"\bdeepcopy\("),
        ("hashing", r"\b(hashlib|sha\d+|md5|digest|blake2\w)\b"),
        ("pickling", r"\bpickle\.(dump|dumps|load|loads)\("),
        ("statistics in Python", r"\.(tolist|item)\(|(?<![.\w])(sum|float|int|abs|min|max)\("),
        ("work with NumPy", r"\bnp\.|\.numpy\("),
        (LOOP, r"^\s*for\b|\bfor\b.+\bin\b"),
    )
)
"""Activities by the text of the line: functions written in C have no frames."""

VAGUE = frozenset({"", "statistics in Python", "work with NumPy", LOOP})
"""Words for lines that may also run the model's operators."""

_REPORTING = re.compile(
    r"^(wandb\w*|mlflow|comet_ml|neptune|clearml|aim|dvclive|matplotlib|seaborn|plotly|pandas"
    r"|polars|sklearn|tqdm|rich|progressbar|loguru|structlog|requests|urllib3|httpx)/"
    r"|tensorboard|\b(logging|json)/|/(subprocess|csv)\.py\b"
)
"""Frames that report, draw, count or request, whoever calls them."""

_SAVING = re.compile(
    r"\bpickle\.dump\(|\b(joblib|cloudpickle|dill)\.dump\(|\bnp\.savez?\w*\(|\bnumpy\.savez?\w*\("
    r"|\bsave_(file|model|pretrained|checkpoint|state|weights)\(|\btorch\.save\("
)


@lru_cache(maxsize=8192)
def words_of(file: str, line: int, via: str, inner: str) -> str:
    """What a sample there was doing; empty if unknown."""
    return _of_frame(via) or _of_frame(inner) or _of_text(text_of(file, line))


@lru_cache(maxsize=4096)
def reports(frame: str) -> bool:
    """Whether the frame belongs to a library for reports, not to a model."""
    return _REPORTING.search(frame) is not None


@lru_cache(maxsize=8192)
def saves(file: str, line: int) -> bool:
    """Whether the line's text writes a model or another large object to a file."""
    return _SAVING.search(text_of(file, line)) is not None


def text_of(file: str, line: int) -> str:
    """The text of the line; empty if the file cannot be read on this machine."""
    return linecache.getline(file, line).strip() if _is_readable(file) else ""


@lru_cache(maxsize=512)
def _is_readable(file: str) -> bool:
    path = Path(file)
    try:
        is_source = path.suffix == ".py" and path.is_file()
        return is_source and path.stat().st_size <= LONGEST_SOURCE
    except (OSError, ValueError):
        return False


@lru_cache(maxsize=4096)
def _of_frame(frame: str) -> str:
    return next((words for words, marks in _CALLED if marks.search(frame)), "") if frame else ""


@lru_cache(maxsize=4096)
def _of_text(text: str) -> str:
    return next((words for words, marks in _TEXT if marks.search(text)), "") if text else ""
