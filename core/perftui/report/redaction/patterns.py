"""What is redacted wherever it occurs, by its form alone."""

from __future__ import annotations

PLACEHOLDER = r"(?<![\w-])(?:user|host|path|program|value|url|email|address|uuid)-\d+(?![\w-])"
"""What stands for something redacted; it is left as it is."""

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

EMAIL = r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+"

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
