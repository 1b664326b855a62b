"""Puts the same name, such as ``host-1``, in the place of the same private text.

It is private because it is known to be, or by its form alone."""

from __future__ import annotations

import html
import ipaddress
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

from perftui.format import middle
from perftui.report.output_text import replacing_texts
from perftui.trace.text import printable

_SHOWN_CELLS = 28
"""Facts cut names of programs to so many cells."""


@dataclass(frozen=True)
class Known:
    """Texts that are replaced wherever they occur, each once."""

    users: tuple[str, ...] = ()
    hosts: tuple[str, ...] = ()
    homes: tuple[str, ...] = ()
    projects: tuple[str, ...] = ()
    """Directories that paths are given relative to."""
    paths: tuple[str, ...] = ()
    """Other paths, listed because no pattern can tell where a path with blanks ends."""
    programs: tuple[str, ...] = ()
    values: tuple[str, ...] = ()
    """Secrets of the command line."""
    uuids: tuple[str, ...] = ()


def shown_program(name: str) -> str:
    """The name of a program as facts have it."""
    return middle(printable(name), _SHOWN_CELLS)


PLACEHOLDER = r"(?<![\w-])(?:user|host|path|program|value|url|email|address|uuid)-\d+(?![\w-])"
"""A placeholder of redacted text; it is left as it is."""

_CHARACTER = r"[^\s/'\"`<>|;:,()\[\]{}&*?!\\]"

REST = rf"(?:/{_CHARACTER}*)*"
"""What may follow a directory."""

PATH = (
    rf"(?<![\w.~/>*)-])/{_CHARACTER}+(?:/{_CHARACTER}*)+"
    rf"|(?<![\w~])~[\w.-]{{0,64}}(?:/{_CHARACTER}+)+"
)
"""An absolute path of two names or more, or one below a home."""

_WORD = r"[^\s'\"`<>|;:,()*?\\/]+"

WINDOWS_PATH = (
    rf"(?<![A-Za-z0-9])[A-Za-z]:(?:\\{{1,2}}{_WORD}(?: {_WORD})*(?=\\))*\\{{1,2}}{_WORD}"
    r"|(?<!\\)\\\\[\w.-]+(?:\\[\w.$-]+)+"
)
"""Blanks end the last name only."""

URL = (
    r"(?<![A-Za-z0-9])[A-Za-z][A-Za-z0-9+.-]{0,20}://[^\s'\"`<>|()]+"
    r"|(?<![\w-])git@[\w.-]+:[\w./-]+"
)

KEY = (
    r"(?<![A-Za-z0-9])(?:"
    r"hf_[A-Za-z0-9]{16,}"
    r"|sk-[A-Za-z0-9_-]{16,}"
    r"|gh[pousr]_[A-Za-z0-9]{16,}"
    r"|github_pat_\w{16,}"
    r"|glpat-[\w-]{16,}"
    r"|xox[abpr]-[\w-]{10,}"
    r"|A[KS]IA[A-Z0-9]{16}"
    r"|AIza[\w-]{30,}"
    r"|eyJ[\w-]{8,}\.[\w-]{8,}(?:\.[\w-]*)?"
    r")"
)
"""Keys of Hugging Face, OpenAI, GitHub, GitLab, Slack, AWS and Google, and JSON Web Tokens."""

_HEX = "[0-9a-fA-F]"

UUID = (
    rf"(?<![A-Za-z0-9])(?:(?:GPU|MIG)-)?{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
    r"(?![A-Za-z0-9])"
)

_BYTE = r"(?:25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)"

ADDRESS = (
    rf"(?<![\w.])(?:{_BYTE}\.){{3}}{_BYTE}(?![\w]|\.\d)"
    rf"|(?<![\w:])(?:{_HEX}{{1,4}}:){{2,7}}(?::?{_HEX}{{1,4}}){{0,6}}(?:%\w+)?(?![\w:])"
    rf"|(?<![\w:])(?:{_HEX}{{2}}:){{5}}{_HEX}{{2}}(?![\w:])"
    rf"|(?<![\w:])fe80:(?::?{_HEX}{{1,4}}){{1,7}}(?:%\w+)?(?![\w:])"
)
"""Addresses of IP, versions 4 and 6, and of network cards. A time of day has no more than two
colons and is none."""

PIDS = r"(?<!\w)pids? \d+(?:, \d+)*"


OURS = ("pytorch.org", "perfetto.dev", "nvidia.com", "python.org")
"""Hosts of the documentation that answers name."""

SYSTEM = ("/dev/", "/proc/sys/", "/sys/", "/usr/bin/", "/usr/lib/", "/bin/", "/etc/")
"""Directories whose files are the same on every machine."""

_INSTALLED = re.compile(r"(?:site|dist)-packages/.*", re.DOTALL)
_STANDARD = re.compile(r"(?<=/)python3\.\d+/.*", re.DOTALL)
_ANY_PATH = re.compile(rf"{PATH}|{WINDOWS_PATH}")
_LANGUAGE = re.compile(r"(?:python|java|node|bash|sh|perl|ruby|perftui|torchrun)[\d.]*")


class Redactor:
    """A callable that gives a text without what is private, always the same for the same text."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._numbers: dict[str, dict[str, int]] = {}
        self._kept: dict[str, str] = {}
        self._placeholder = re.compile(PLACEHOLDER)
        # Paths that a pattern would not match whole, and programs whose names say more than the
        # language they run in.
        odd = [path for path in known.paths if not _ANY_PATH.fullmatch(path)]
        places = _directories((*known.projects, *known.homes, *odd))
        telling = [name for name in known.programs if not _LANGUAGE.fullmatch(name)]
        names = {
            "value": _any(known.values),
            "uuid": f"{_any(known.uuids)}|{UUID}",
            "host": f"(?i:{_any(known.hosts)})",
            "user": _any(known.users),
        }
        groups = {
            "placeholder": PLACEHOLDER,
            "secret": f"{names['value']}|{KEY}",
            "url": URL,
            "email": r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+",
            "uuid": names["uuid"],
            "path": f"{places}{REST}|{PATH}|{WINDOWS_PATH}",
            "program": f"{PIDS}(?: {_any(known.programs)})?|{_any(telling)}",
            "host": names["host"],
            "user": names["user"],
            "address": ADDRESS,
        }
        self._groups = re.compile("|".join(f"(?P<{name}>{form})" for name, form in groups.items()))
        private = (*names.values(), _directories((*known.homes, *known.projects)))
        self._private = re.compile("|".join(private))

    def __call__(self, text: str) -> str:
        """The text without what is private."""
        result = self._kept.get(text)
        if result is None:
            result = self._groups.sub(self._instead, text)
            if len(self._kept) < 100_000:
                self._kept[text] = result
        return result

    def left_in(self, text: str) -> bool:
        """Whether text that is known to be private is in a finished text."""
        return self._private.search(self._placeholder.sub("", text)) is not None

    def number(self, kind: str, text: str) -> str:
        """``host-1``: what stands for ``text``."""
        numbers = self._numbers.setdefault(kind, {})
        return f"{kind}-{numbers.setdefault(text, len(numbers) + 1)}"

    def program(self, name: str) -> str:
        """``program-1``: what stands for a program of that name, whole or cut."""
        return self.number("program", shown_program(name))

    def host(self, name: str) -> str:
        """``host-1``: what stands for a host of that name, with its domain or without."""
        return self.number("host", name.partition(".")[0].lower())

    def _instead(self, match: re.Match[str]) -> str:
        text, kind = match[0], match.lastgroup or ""
        if kind == "placeholder":
            return text
        if kind == "path":
            return self._path(text)
        if kind == "address":
            return self._address(text)
        if kind == "url":
            return text if _is_ours(text) else self.number("url", text)
        if kind == "program":
            return self.program(re.sub(f"{PIDS} ", "", text))
        if kind == "host":
            return self.host(text)
        return self.number("value" if kind == "secret" else kind, text)

    def _address(self, text: str) -> str:
        if ":" in text and text.count(":") != 5:
            try:
                ipaddress.ip_address(text.partition("%")[0])
            except ValueError:
                return text
        local = ("127.", "0.0.0.0")  # noqa: S104 # compared with, never bound to
        return text if text.startswith(local) else self.number("address", text)

    def _path(self, whole: str) -> str:
        text = whole.rstrip(".")
        dots = whole[len(text) :]
        if "\\" in text and not text.startswith("/"):
            return self._elsewhere(text, PureWindowsPath(text.replace("\\\\", "\\"))) + dots
        for project in sorted(self._known.projects, key=len, reverse=True):
            if text == project or text.startswith(f"{project}/"):
                return self(text[len(project) :].strip("/") or "project") + dots
        if library := _INSTALLED.search(text) or _STANDARD.search(text):
            return self(library[0]) + dots
        if text.startswith(SYSTEM):
            return self._names(text) + dots
        return self._elsewhere(text, PurePosixPath(text)) + dots

    def _elsewhere(self, text: str, path: PurePosixPath | PureWindowsPath) -> str:
        """``path-1/train.py``; ``path-1`` if it is no file."""
        is_file = bool(path.suffix) or path.parent.name in ("bin", "Scripts")
        if not is_file or text.endswith(("/", "\\")):
            return self.number("path", str(path))
        return f"{self.number('path', str(path.parent))}/{self._names(path.name)}"

    def _names(self, text: str) -> str:
        return self._groups.sub(
            lambda match: match[0] if match.lastgroup == "path" else self._instead(match), text
        )


def _is_ours(url: str) -> bool:
    host = re.fullmatch(r"https://([\w.-]+)(?:/[\w./#-]*)?", url)
    return host is not None and f".{host[1]}".endswith(tuple(f".{domain}" for domain in OURS))


def _any(names: Iterable[str]) -> str:
    """One of ``names`` that stands alone, the longest first; never anything where there is none."""
    return rf"(?<![A-Za-z0-9]){_literal(names)}(?![A-Za-z0-9])"


def _literal(names: Iterable[str]) -> str:
    longest = sorted(names, key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, longest))})" if longest else "(?!)"


def _directories(names: Iterable[str]) -> str:
    """One of these directories, also where it follows a letter, as in ``-I/home/ada``; one of a
    single name, as ``/p``, only where it does not."""
    paths = set(names)
    long = {path for path in paths if path.count("/") > 1}
    return rf"(?:{_literal(long)}|(?<![\w.~/>*)-]){_literal(paths - long)})(?![\w-])"


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
"""Kinds of private text in fields of a trace, by field name."""


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
        """The text that ``render`` makes, each text of others in it redacted. Raises RedactionError
        if something private is left in it."""
        with replacing_texts(self.redactor):
            text = render()
        self.check(text)
        return text

    def pieces(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """The same for text that is made piece by piece, each with whole names. Raises
        RedactionError if something private is left in a piece."""
        with replacing_texts(self.redactor):
            for piece in pieces:
                self.check(piece.decode("utf-8", "replace"))
                yield piece

    def plain(self, value: Any) -> Any:
        """Values of JSON with each text in them redacted, names of fields too."""
        if isinstance(value, dict):
            return {self.redactor(str(name)): self._field(name, one) for name, one in value.items()}
        if isinstance(value, list):
            return [self.plain(item) for item in value]
        return self.redactor(value) if isinstance(value, str) else value

    def _field(self, name: str, value: Any) -> Any:
        kind = _PRIVATE_FIELDS.get(str(name).lower())
        if kind is None or not isinstance(value, str):
            return self.plain(value)
        return self.redactor.number(kind, value)

    def check(self, text: str) -> None:
        """Look for what is known to be private, however the form spells it. Raises RedactionError
        if it is there."""
        for spelled in {text, text.replace("\\", ""), html.unescape(text)}:
            if self.redactor.left_in(spelled):
                raise RedactionError(
                    "the redacted report would still contain a name or path of this machine or "
                    "of the run, so it is not written: another form may do"
                )
