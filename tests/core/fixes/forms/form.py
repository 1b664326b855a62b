"""A form of training script, and what a fix writes into it or why it leaves it alone."""

import re
from dataclasses import dataclass

MARK = "  # here"
TRAIN = "loss = f(model(x), y)\nloss.backward()\noptimizer.step()\noptimizer.zero_grad()"


@dataclass(frozen=True)
class Form:
    """``marked`` has ``# here`` behind the line that the run named."""

    what: str
    fix: str
    marked: str
    written: tuple[str, ...] = ()
    """The lines that the fix puts in, without their indentation; none where it is refused."""
    refused: str = ""
    """Part of the reason."""
    had: int | None = None
    """Workers that the run had, where that matters."""

    @property
    def text(self) -> str:
        """The source as it is in the file."""
        return self.marked.replace(MARK, "")

    @property
    def line(self) -> int:
        """The line that the run named."""
        lines = self.marked.split("\n")
        return next(at for at, text in enumerate(lines, 1) if text.endswith(MARK))


def diffs(text: str) -> dict[str, tuple[str, str]]:
    """By name what a source is before and after: lines of both are indented by two, those that go
    begin with ``- `` and those that come with ``+ ``."""
    found = {}
    for block in text.strip("\n").split("\n\n"):
        name, *lines = block.split("\n")
        found[name] = tuple(
            "".join(f"{line[2:]}\n" for line in lines if line[0] in kept) for kept in (" -", " +")
        )
    return found


def forms(text: str, **parts: str) -> tuple[Form, ...]:
    """The forms of ``text``, each begun by ``fix: what``: the source, indented, then the lines that
    are put in (``> ``, a longer one goes on behind ``>> ``), or why it is left alone (``! ``).

    A line that is the name of one of ``parts``, or ``TRAIN``, stands for its lines; ``(had 2)`` is
    the workers that the run had."""
    parts["TRAIN"] = TRAIN
    found = []
    for block in re.split(r"\n(?=[a-z])", text.strip("\n")):
        head, *lines = block.split("\n")
        fix, what, had = re.fullmatch(r"([a-z-]+): (.*?)(?: \(had (\d+)\))?", head).groups()
        source = []
        for line in (line[4:] for line in lines if line[:1] in ("", " ")):
            name = line.strip()
            indent = line[: len(line) - len(line.lstrip())]
            part = parts.get(name, "").strip("\n").split("\n") if name in parts else [name]
            source += [indent + one if one else "" for one in part]
        put_in = "\n".join(line for line in lines if line.startswith(">")).replace("\n>> ", " ")
        written = [line[2:] for line in put_in.split("\n") if line]
        refused = "".join(line[2:] for line in lines if line.startswith("! "))
        found.append(
            Form(
                what,
                fix,
                "\n".join(source).strip("\n") + "\n",
                tuple(parts.get(one, one) for one in written),
                refused,
                int(had) if had else None,
            )
        )
    return tuple(found)
