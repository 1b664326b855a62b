"""What a process is called: its name, with the script or module that an interpreter runs."""

from __future__ import annotations

from collections.abc import Sequence


def program(name: str, words: Sequence[str]) -> str:
    """``name`` with the script or module of the command line ``words``, and nothing else of it: the
    rest may be a secret."""
    script = next((word for word in words[1:] if word.endswith((".py", ".sh", ".pl"))), "")
    module = module_of(words)
    if not script and module:
        script = f"-m {module}"
    return f"{name} {script.rpartition('/')[2]}".strip()


def module_of(words: Sequence[str]) -> str:
    """The module that Python was asked to run; empty for none."""
    return words[words.index("-m") + 1] if "-m" in words[1:-1] else ""
