"""Errors of ours, as opposed to the script's."""

from __future__ import annotations


class UsageError(Exception):
    """The command cannot be carried out; the message has the reason and what to do. Exit code 2."""
