"""A diagnosis: findings with their evidence, cost and confidence; its file, ``findings.json``."""

from __future__ import annotations

import enum
from dataclasses import dataclass
from pathlib import Path

import msgspec

from perftui.facts.place import Place
from perftui.facts.question import Question
from perftui.run.files import decode_versioned, read_regular, replace_file

COMPUTE_BOUND_ID = "compute-bound"
"""Id of the verdict that nearly all time is computing: no bottleneck, and no praise."""

READ_MORE = "read more"
"""Label of the figure that names the source of a finding's advice."""


class Severity(enum.IntEnum):
    """Ordered from worst to best."""

    CRITICAL = 3
    WARNING = 2
    INFO = 1
    HEALTHY = 0


class Confidence(str, enum.Enum):
    """How much evidence a finding is based on."""

    HIGH = "high"
    MEDIUM = "medium"
    LOW = "low"


def _short_name(kernel: str) -> str:
    # Imported here: the app's first frame, without kernels, does not load a parser of C++ names.
    from perftui.analysis.kernels.names import short_name

    return short_name(kernel)


@dataclass(frozen=True)
class Figure:
    """One number that a finding is based on.

    ``unit`` is ``"ns"``, ``"%"`` (0 to 100), ``"B"``, ``"count"`` (of whole things), or empty for
    text and for other numbers; ``threshold`` is the rule's limit in the same unit, if one was
    crossed.
    """

    label: str
    value: float | int | str
    unit: str = ""
    threshold: float | None = None
    place: Place | None = None

    @property
    def shown_label(self) -> str:
        """The label; for a kernel, its short name."""
        return _short_name(self.label) if self._names_kernel else self.label

    @property
    def shown_value(self) -> float | int | str:
        """The value; for a kernel, its short name."""
        is_name = self._names_kernel and isinstance(self.value, str)
        return _short_name(str(self.value)) if is_name else self.value

    @property
    def _names_kernel(self) -> bool:
        return self.place is not None and self.place.trace_row is not None

    @classmethod
    def share(
        cls, label: str, share: float, limit: float | None = None, place: Place | None = None
    ) -> Figure:
        """A share from 0 to 1 and its limit, as percent."""
        threshold = None if limit is None else 100 * limit
        return cls(label, round(100 * share, 1), "%", threshold, place)


@dataclass(frozen=True)
class Finding:
    """One cause of lost time."""

    rule: str
    severity: Severity
    sentence: str
    """For a person: with the numbers, without the fix."""
    facts: tuple[Figure, ...] = ()
    cost_ns: int = 0
    """Time lost per mean step, ns; part of the step breakdown that is shown."""
    step_ns: int = 0
    """The mean steady step the cost was measured against; the whole trace if it marks no steps."""
    confidence: Confidence = Confidence.MEDIUM
    place: Place | None = None
    """Where to look first: the line of the user's code, or the operator or kernel; None if
    unknown."""
    parts: tuple[str, ...] = ()
    """Parts of the step that contain the cost, by the names of the breakdown."""
    fixes: tuple[str, ...] = ()
    """Identifiers from the catalogue of fixes, best first."""
    would_raise_confidence: str = ""
    steps: int = 0
    """Number of steady steps behind cost and confidence; 0 for a whole trace without marked steps,
    or, without a ``step_ns``, for samples of the machine."""
    is_least: bool = False
    """Whether more may be lost than ``cost_ns``."""
    advice: str = ""
    """What to do about this one, in one line without a full stop; empty where only what its rule
    says of all is known."""
    question: Question | None = None
    """What was not recorded and would tell more of it."""

    @property
    def headline(self) -> str:
        """The sentence, with the line of its place added if it does not name it."""
        line = self.place.short if self.place else ""
        if not line or line in self.sentence:
            return self.sentence
        return f"{self.sentence.removesuffix('.')}, at {line}."

    @property
    def share(self) -> float:
        """Cost as a share of the step, 0 to 1."""
        return self.cost_ns / self.step_ns if self.step_ns else 0.0

    @property
    def best_speedup(self) -> float | None:
        """Speedup if the whole cost went away (Amdahl); None if unknown."""
        left = self.step_ns - self.cost_ns
        return self.step_ns / left if self.cost_ns and left > 0 else None

    @property
    def gain(self) -> str:
        """``up to 2.04x faster``, or ``2.04x faster or more`` if more may be lost; empty if
        unknown."""
        best = self.best_speedup
        if best is None:
            return ""
        return f"{best:.2f}x faster or more" if self.is_least else f"up to {best:.2f}x faster"

    @property
    def gain_mark(self) -> str:
        """The same for a column: ``≤2.04x`` or ``≥2.04x``."""
        best = self.best_speedup
        return "" if best is None else f"{'≥' if self.is_least else '≤'}{best:.2f}x"


@dataclass(frozen=True)
class Abstention:
    """A rule that could not judge, and why."""

    rule: str
    reason: str
    question: Question | None = None
    """What was not recorded and would let it judge; None if no option records it."""


@dataclass(frozen=True)
class Diagnosis:
    """The outcome of all rules; findings are ranked by their share of the step, then by severity,
    the healthy one first."""

    findings: tuple[Finding, ...] = ()
    abstentions: tuple[Abstention, ...] = ()
    steady_steps: int = 0
    """Number of judged steps, without warm-up and profiled steps."""
    progress: str = ""
    """What is being waited for, if it is too early to judge ("collecting, 3 of 20 steps")."""
    asking: str = ""
    """What the next window will record, and what for; empty if nothing was asked for."""

    @property
    def waits_for(self) -> str:
        """What is being waited for, be it steps or what the next window will record."""
        return "; ".join(text for text in (self.progress, self.asking) if text)

    @property
    def questions(self) -> tuple[Question, ...]:
        """What was not recorded and would tell more, most valuable first."""
        every = [finding.question for finding in self.findings]
        every += [abstention.question for abstention in self.abstentions]
        return tuple(sorted(dict.fromkeys(one for one in every if one), key=lambda one: -one.share))

    @property
    def top(self) -> Finding | None:
        """The costliest finding, or the healthy one; None without data."""
        return self.findings[0] if self.findings else None

    @property
    def rules_not_judged(self) -> int:
        """How many rules could not judge: one may have several reasons."""
        return len({each.rule for each in self.abstentions})

    @property
    def not_judged(self) -> dict[str, list[str]]:
        """The rules that could not judge, or not all, by the reason: many often have the same."""
        reasons: dict[str, dict[str, None]] = {}
        for each in self.abstentions:
            # Two rows of rules may have one id.
            reasons.setdefault(each.reason, {})[each.rule] = None
        for found in self.findings:
            if found.question is not None:
                reasons.setdefault(found.question.lack, {})[found.rule] = None
        return {reason: list(rules) for reason, rules in reasons.items()}


SCHEMA = 1
"""Schema of the file, for scripts that read it."""


class _File(msgspec.Struct, frozen=True):
    diagnosis: Diagnosis
    schema: int = SCHEMA


def write_findings(path: Path, diagnosis: Diagnosis) -> None:
    """Replace the diagnosis at ``path`` atomically. Raises OSError if it cannot be written; an
    older one is then unchanged."""
    replace_file(path, msgspec.json.format(msgspec.json.encode(_File(diagnosis)), indent=2) + b"\n")


def read_findings(path: Path) -> Diagnosis:
    """The diagnosis at ``path``.

    Raises:
        UnreadableError: it is damaged or newer than this version.
        OSError: there is none, or it cannot be read.
    """
    return decode_versioned(read_regular(path), _File, SCHEMA, "a diagnosis").diagnosis
