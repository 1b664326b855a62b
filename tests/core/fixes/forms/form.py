"""A form of training script, and what a fix writes into it or why it leaves it alone."""

from __future__ import annotations

from dataclasses import dataclass
from textwrap import dedent

MARK = "  # here"
TRAIN = "loss = f(model(x), y)\nloss.backward()\noptimizer.step()\noptimizer.zero_grad()"


@dataclass(frozen=True)
class Form:
    """``source`` with ``# here`` behind the line that the run named."""

    what: str
    fix: str
    source: str
    written: tuple[str, ...] = ()
    """The lines that the fix puts in, without their indentation; none where it is refused."""
    refused: str = ""
    """Part of the reason."""
    had: int | None = None
    """Workers that the run had, where that matters."""

    @property
    def marked(self) -> str:
        """The source with the mark; ``TRAIN`` stands for the statements of a step."""
        lines = []
        for line in dedent(self.source).strip("\n").split("\n"):
            indent = line[: len(line) - len(line.lstrip())]
            step = [indent + one for one in TRAIN.split("\n")]
            lines += step if line.strip() == "TRAIN" else [line]
        return "\n".join(lines) + "\n"

    @property
    def text(self) -> str:
        """The source as it is in the file."""
        return self.marked.replace(MARK, "")

    @property
    def line(self) -> int:
        """The line that the run named."""
        lines = self.marked.split("\n")
        return next(at for at, text in enumerate(lines, 1) if text.endswith(MARK))
