"""How one report is redacted, whatever it is written as."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from perftui.report.output_text import replacing_texts
from perftui.report.redaction.redactor import Redactor

WHAT = (
    "user names",
    "host names",
    "paths outside the project",
    "other programs",
    "process ids",
    "network addresses",
    "URLs",
    "keys and tokens",
    "GPU UUIDs",
)
"""What is redacted, for the head of a report."""


_PRIVATE_FIELDS = {
    "uuid": "uuid",
    "serial": "uuid",
    "hostname": "host",
    "host_name": "host",
    "host": "host",
    "username": "user",
    "user": "user",
}
"""What fields of a trace hold that are named so."""


class RedactionError(ValueError):
    """Something private is left in the output; the message says what to do."""


@dataclass(frozen=True, eq=False)
class Redaction:
    """How one report is redacted."""

    redactor: Redactor
    what: tuple[str, ...] = WHAT

    @property
    def head(self) -> str:
        """What is redacted, in a line."""
        return f"redacted: {', '.join(self.what)}"

    def applied(self, render: Callable[[], str]) -> str:
        """The text that ``render`` makes, each text of others in it redacted.

        Raises:
            RedactionError: something private is left in it.
        """
        with replacing_texts(self.redactor):
            text = render()
        self.check(text)
        return text

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same for text that is made piece by piece, each with whole names.

        Raises:
            RedactionError: something private is left in a piece.
        """
        with replacing_texts(self.redactor):
            for piece in pieces:
                self.check(piece.decode("utf-8", "replace"))
                yield piece

    def plain(self, value: Any) -> Any:
        """Values of JSON with each text in them redacted, names of fields too."""
        if isinstance(value, dict):
            return {self.redactor(str(name)): self._field(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.plain(one) for one in value]
        return self.redactor(value) if isinstance(value, str) else value

    def _field(self, name: str, value: Any) -> Any:
        kind = _PRIVATE_FIELDS.get(str(name).lower())
        if kind is None or not isinstance(value, str):
            return self.plain(value)
        return self.redactor.number(kind, value)

    def check(self, text: str) -> None:
        """Look for what is known to be private, however the form spells it.

        Raises:
            RedactionError: it is there.
        """
        for spelled in {text, text.replace("\\", ""), html.unescape(text)}:
            if self.redactor.left_in(spelled):
                raise RedactionError(
                    "the redacted report would still contain a name or path of this machine or "
                    "of the run, so it is not written: another form may do"
                )
