"""Text from traces and logs, made safe to show."""

from __future__ import annotations

import re

# C0 controls, DEL, C1 controls (some terminals act on them), the line and paragraph separators,
# and the characters that reorder or hide what surrounds them (CVE-2021-42574).
_UNSAFE = re.compile(
    "[\x00-\x1f\x7f-\x9f\u061c\u2028\u2029\u200b\u200e\u200f\u202a-\u202e\u2060-\u2069\ufeff]"
)
_SURROGATE = re.compile("[\ud800-\udfff]")


def printable(text: str) -> str:
    """The text with every control character spelled as an escape (``\x1b``, ``\u202e``).

    The result holds no character that a terminal acts on and can be encoded as UTF-8; text without
    such characters is returned unchanged.
    """
    return _SURROGATE.sub(_escape, _UNSAFE.sub(_escape, text))


def encodable(text: str) -> str:
    """The text with U+FFFD for each unpaired half of a surrogate pair.

    Escapes in JSON and names of files can hold such halves; no encoding can represent them.
    """
    return _SURROGATE.sub("\ufffd", text)


def _escape(match: re.Match[str]) -> str:
    code = ord(match.group())
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
