"""Puts the same name, such as ``host-1``, in the place of the same private text."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from pathlib import PurePosixPath, PureWindowsPath

from perftui.report.redaction import patterns
from perftui.report.redaction.known import Known, shown_program

OURS = ("pytorch.org", "perfetto.dev", "nvidia.com", "python.org")
"""Hosts of the documentation that answers name."""

SYSTEM = ("/dev/", "/proc/sys/", "/sys/", "/usr/bin/", "/usr/lib/", "/bin/", "/etc/")
"""Where files are the same on every machine."""

_INSTALLED = re.compile(r"(?:site|dist)-packages/.*", re.DOTALL)
_STANDARD = re.compile(r"(?<=/)python3\.\d+/.*", re.DOTALL)
_ANY_PATH = re.compile(rf"{patterns.PATH}|{patterns.WINDOWS_PATH}")


class Redactor:
    """Called with a text it gives that text without what is private; always the same for it."""

    def __init__(self, known: Known) -> None:
        self._known = known
        self._numbers: dict[str, dict[str, int]] = {}
        self._kept: dict[str, str] = {}
        self._placeholder = re.compile(patterns.PLACEHOLDER)
        names = {
            "value": _any(known.values),
            "uuid": f"{_any(known.uuids)}|{patterns.UUID}",
            "host": f"(?i:{_any(known.hosts)})",
            "user": _any(known.users),
        }
        groups = {
            "placeholder": patterns.PLACEHOLDER,
            "secret": f"{names['value']}|{patterns.KEY}",
            "url": patterns.URL,
            "email": patterns.EMAIL,
            "uuid": names["uuid"],
            "path": f"{_places(known)}|{patterns.PATH}|{patterns.WINDOWS_PATH}",
            "program": f"{patterns.PIDS}(?: {_any(known.programs)})?|{_any(_telling(known))}",
            "host": names["host"],
            "user": names["user"],
            "address": patterns.ADDRESS,
        }
        self._groups = re.compile("|".join(f"(?P<{name}>{one})" for name, one in groups.items()))
        private = (*names.values(), _directories((*known.homes, *known.projects)))
        self._private = re.compile("|".join(private))

    def __call__(self, text: str) -> str:
        """The text without what is private."""
        found = self._kept.get(text)
        if found is None:
            found = self._groups.sub(self._instead, text)
            if len(self._kept) < _MOST_KEPT:
                self._kept[text] = found
        return found

    def left_in(self, text: str) -> bool:
        """Whether something that is known to be private is in a finished text."""
        return self._private.search(self._placeholder.sub("", text)) is not None

    def number(self, kind: str, text: str) -> str:
        """``host-1``: what stands for ``text``."""
        known = self._numbers.setdefault(kind, {})
        return f"{kind}-{known.setdefault(text, len(known) + 1)}"

    def program(self, name: str) -> str:
        """``program-1``: what stands for a program of that name, whole or cut."""
        return self.number("program", shown_program(name))

    def host(self, name: str) -> str:
        """``host-1``: what stands for a host of that name, with its domain or without."""
        return self.number("host", name.partition(".")[0].lower())

    def _instead(self, found: re.Match[str]) -> str:
        text, kind = found[0], found.lastgroup or ""
        if kind == "placeholder":
            return text
        if kind == "path":
            return self._path(text)
        if kind == "address":
            return self._address(text)
        if kind == "url":
            return text if _is_ours(text) else self.number("url", text)
        if kind == "program":
            return self.program(re.sub(f"{patterns.PIDS} ", "", text))
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
        behind = whole[len(text) :]
        if "\\" in text and not text.startswith("/"):
            return self._elsewhere(text, PureWindowsPath(text.replace("\\\\", "\\"))) + behind
        for project in sorted(self._known.projects, key=len, reverse=True):
            if text == project or text.startswith(f"{project}/"):
                return self(text[len(project) :].strip("/") or "project") + behind
        if library := _INSTALLED.search(text) or _STANDARD.search(text):
            return self(library[0]) + behind
        if text.startswith(SYSTEM):
            return self._names(text) + behind
        return self._elsewhere(text, PurePosixPath(text)) + behind

    def _elsewhere(self, text: str, path: PurePosixPath | PureWindowsPath) -> str:
        """``path-1/train.py``; of what is no file ``path-1``."""
        is_file = bool(path.suffix) or path.parent.name in ("bin", "Scripts")
        if not is_file or text.endswith(("/", "\\")):
            return self.number("path", str(path))
        return f"{self.number('path', str(path.parent))}/{self._names(path.name)}"

    def _names(self, text: str) -> str:
        return self._groups.sub(
            lambda one: one[0] if one.lastgroup == "path" else self._instead(one), text
        )


_MOST_KEPT = 100_000


def _is_ours(url: str) -> bool:
    host = re.fullmatch(r"https://([\w.-]+)(?:/[\w./#-]*)?", url)
    return host is not None and f".{host[1]}".endswith(tuple(f".{one}" for one in OURS))


def _any(names: Iterable[str]) -> str:
    """One of ``names`` that stands alone, the longest first; never anything where there is none."""
    return rf"(?<![A-Za-z0-9]){_literal(names)}(?![A-Za-z0-9])"


def _literal(names: Iterable[str]) -> str:
    longest = sorted(names, key=len, reverse=True)
    return f"(?:{'|'.join(map(re.escape, longest))})" if longest else "(?!)"


def _places(known: Known) -> str:
    """Known directories with what is below, and known paths that a pattern would not find whole."""
    odd = [one for one in known.paths if not _ANY_PATH.fullmatch(one)]
    return f"{_directories((*known.projects, *known.homes, *odd))}{patterns.REST}"


def _directories(names: Iterable[str]) -> str:
    """One of these directories, also where it follows a letter, as in ``-I/home/ada``; of those
    with one name, as ``/p``, only where it does not."""
    found = set(names)
    long = {one for one in found if one.count("/") > 1}
    return rf"(?:{_literal(long)}|(?<![\w.~/>*)-]){_literal(found - long)})(?![\w-])"


def _telling(known: Known) -> tuple[str, ...]:
    """Programs whose names say more than in which language they are written."""
    usual = re.compile(r"(?:python|java|node|bash|sh|perl|ruby|perftui|torchrun)[\d.]*")
    return tuple(one for one in known.programs if not usual.fullmatch(one))
