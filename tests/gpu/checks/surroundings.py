"""What perftui reads of the machine around a training, beside other tools that read the same."""

import csv
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from statistics import median
from typing import Any

import numpy as np

from perftui.analysis.kernels.limits import card_of
from perftui.probe.ceilings import Ceiling
from perftui.run.reader import RunReader, RunSnapshot
from tests.gpu.checks.machine import Machine, Row, State
from tests.gpu.checks.measured import TRAININGS, WARM

MIB = 1 << 20

METRICS: Mapping[str, tuple[str, float, float, float]] = {
    "utilization.gpu": ("gpu0.utilization", 1, 0.0, 12.0),
    "memory.used": ("gpu0.memory_used", MIB, 0.03, 0.0),
    "power.draw": ("gpu0.power", 1, 0.15, 15.0),
    "temperature.gpu": ("gpu0.temperature", 1, 0.0, 4.0),
    "clocks.sm": ("gpu0.clock_sm", 1, 0.05, 30.0),
}
"""Fields of nvidia-smi: our name, our unit in theirs, and how far the medians may be apart, as a
share and in our unit: both sample twice a second, at other moments."""

RESERVED = "memory.reserved"
"""By the driver: NVML's first version, which perftui reads, counts it as used."""

PEAKS = {
    Ceiling.MEMORY: ("bandwidth", 1e9, 0.5),
    Ceiling.FLOAT32: ("float32", 1e12, 0.4),
    Ceiling.TF32: ("tf32", 1e12, 0.4),
    Ceiling.BFLOAT16: ("half", 1e12, 0.4),
}
"""What of a card's data sheet each measured peak belongs to, its unit, and the least share of it
that a healthy card reaches."""

MOST_OF_PEAK = 1.05
"""Above it the measurement is wrong, or the data sheet is that of another card."""

TOPICS = {
    **dict.fromkeys(("torch", "agent", "NVIDIA driver", "NVML"), ("ok",)),
    **dict.fromkeys(("CUPTI", "GPU counters"), ("ok", "warn", "unknown")),
}
"""Rows of ``perftui doctor`` on a machine with a GPU, and the states that they may have there: a
container may hide the driver's settings, and hold another CUPTI."""

PHASES = ("perftui::forward", "perftui::optimizer")
"""Kernels of the backward pass are launched by a thread of autograd's, which ranges that are pushed
in the training thread do not hold."""


def telemetry(machine: Machine) -> Iterator[Row]:
    """The card's counters beside nvidia-smi, and a snapshot of its memory."""
    fields = ",".join(("timestamp", *METRICS, RESERVED))
    options = (f"--query-gpu={fields}", "--format=csv,noheader,nounits", "-i", "0", "-lms", "500")
    script = machine.script("language.py", (TRAININGS / "language.py").read_text())
    with machine.beside("nvidia-smi", *options) as lines:
        root = machine.record("telemetry", "--memory-snapshot", script, "6", "4")
    run = RunReader(root).poll()
    snapshots = machine.report(root)["recording"]["snapshots"]
    peaks = [one["peak"] / MIB for one in snapshots if one["peak"]]
    text = f"{len(snapshots)} snapshots, {max(peaks, default=0):.0f} MiB allocated at the highest"
    yield Row.of("memory snapshot", bool(peaks), text, snapshots=snapshots)
    yield judge_telemetry(lines, run)


def judge_telemetry(lines: Sequence[str], run: RunSnapshot) -> Row:
    """Medians of both while steps were steady."""
    name = "telemetry beside nvidia-smi"
    rank = run.rank()
    if rank is None or len(rank.steps) <= WARM:
        return Row(name, State.WRONG, "too few steps were recorded")
    first, last = (int(rank.steps["start"][at]) for at in (WARM, -1))
    theirs = _theirs(lines, first, last)
    if not theirs:
        return Row(name, State.UNKNOWN, "nvidia-smi printed nothing meanwhile")
    (table, *_) = run.telemetry.values()
    during = (table["time"] >= first) & (table["time"] <= last)
    told, right, values = [], True, {}
    for at, (field, (column, unit, share, most)) in enumerate(METRICS.items()):
        other = median(sample[at] for sample in theirs) * unit
        known = table[column][during] if column in table else np.empty(0)
        known = known[~np.isnan(known)]
        if not len(known):
            told.append(f"{column} is missing")
            right = False
            continue
        ours = float(np.median(known))
        agrees = abs(ours - other) <= max(share * abs(other), most)
        right &= agrees
        told.append(f"{field} {ours / unit:.0f}, {other / unit:.0f}" + ("" if agrees else " (!)"))
        values[field] = {"perftui": ours / unit, "nvidia-smi": other / unit}
    return Row.of(name, right, "; ".join(told), **values)


def _theirs(lines: Sequence[str], first: int, last: int) -> list[list[float]]:
    """The samples of nvidia-smi between two times in ns."""
    samples = []
    for time, *fields in csv.reader(lines, skipinitialspace=True):
        try:
            at = datetime.strptime(time, "%Y/%m/%d %H:%M:%S.%f").timestamp() * 1e9
            sample = [float(field) for field in fields]
        except ValueError:
            # The last line may be cut off, and a field "[N/A]".
            continue
        if first <= at <= last and len(sample) == len(METRICS) + 1:
            sample[list(METRICS).index("memory.used")] += sample.pop()
            samples.append(sample)
    return samples


def doctor(machine: Machine) -> Iterator[Row]:
    """What ``perftui doctor`` says of the machine."""
    yield judge_doctor(machine.asked("doctor"))


def judge_doctor(told: dict[str, Any]) -> Row:
    """Whether it sees torch for CUDA and the card."""
    rows = {row["topic"]: row for row in told["rows"]}
    wrong = [
        topic for topic, states in TOPICS.items() if rows.get(topic, {}).get("state") not in states
    ]
    wrong += [topic for topic, row in rows.items() if row["state"] == "fails"]
    torch, card = (rows.get(topic, {}).get("found", "nothing") for topic in ("torch", "NVML"))
    text = f"{torch}; {card}"
    if "CUDA" not in torch:
        wrong.append("torch")
    if wrong:
        said = (f"{topic}: {rows.get(topic, {}).get('found', 'no row')}" for topic in set(wrong))
        text += f"; not ok: {'; '.join(sorted(said))}"
    return Row.of("doctor", not wrong, text, rows=told["rows"])


def probe(machine: Machine) -> Iterator[Row]:
    """What ``perftui probe`` measures."""
    yield judge_probe(machine.asked("probe", "--path", machine.work, seconds=60))


def judge_probe(told: dict[str, Any]) -> Row:
    """Whether peaks are what such a card can do by its data sheet."""
    rates = {rate["name"]: rate["value"] for rate in told["rates"]}
    card = card_of(told["gpu"] or "")
    if card is None:
        return Row("probe", State.UNKNOWN, f"no data sheet of {told['gpu'] or 'a GPU'}")
    said, right = [], True
    for ceiling, (what, unit, least) in PEAKS.items():
        peak, rate = getattr(card, what) * unit, rates.get(ceiling.value)
        if rate is None:
            said.append(f"no {ceiling.value}")
            right = False
            continue
        share = rate / peak
        right &= least <= share <= MOST_OF_PEAK
        said.append(f"{ceiling.value} {rate / unit:.0f} of {peak / unit:.0f}")
    return Row.of("probe", right, "; ".join(said), **rates)


def nvtx(machine: Machine) -> Iterator[Row]:
    """Whether ``--nvtx`` marks phases so that Nsight Compute can choose kernels by them."""
    if not machine.has("ncu"):
        yield Row("NVTX under ncu", State.UNKNOWN, "ncu is not installed")
        return
    table = machine.work / "ncu.csv"
    includes = [word for phase in PHASES for word in ("--nvtx-include", f"{phase}/")]
    command = (
        *("ncu", "--target-processes", "all", "--clock-control", "none", "--csv", "--page", "raw"),
        *("--log-file", table, "--nvtx", *includes, "--launch-count", "60"),
        *("--metrics", "gpu__time_duration.sum", "--"),
    )
    training = ("--headless", "--runs", machine.work / "runs" / "nvtx", "--nvtx", "--steps", "12")
    training += ("--max-steps", "20", TRAININGS / "tiny.py", "20")
    ended = machine.run(*command, *machine.perftui_words, *training, seconds=60)
    printed = table.read_text(errors="replace") if table.exists() else ""
    yield judge_nvtx(ended.code, printed, ended.last_words)


def judge_nvtx(code: int, printed: str, said: str) -> Row:
    """By the raw page that ncu printed."""
    lines = [line for line in printed.splitlines() if line.startswith('"')]
    if code or len(lines) < 3:
        return Row.of("NVTX under ncu", False, f"exit code {code}, no kernels in phases: {said}")
    rows = list(csv.DictReader([lines[0], *lines[2:]]))
    found = {phase: sum(phase in "".join(row.values()) for row in rows) for phase in PHASES}
    text = ", ".join(f"{count} kernels of {phase}" for phase, count in found.items())
    return Row.of("NVTX under ncu", all(found.values()), text, **found)
