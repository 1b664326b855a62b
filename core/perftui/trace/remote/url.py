"""What is a URL, and how it is shown: without the secrets that it may hold."""

from __future__ import annotations

import re

_URL = re.compile(r"[a-z][a-z0-9+.-]*://", re.ASCII | re.IGNORECASE)

_USER = re.compile(r"://[^/\s'\"]*@")
_QUERY = re.compile(r"(://[^\s?#'\"<>]*)[?#][^\s'\"<>]*")
"""A signed URL has its signature there."""


def is_url(text: str) -> bool:
    """Whether ``text`` names something by its URL, and not by a path."""
    return _URL.match(text) is not None


def without_secrets(text: str) -> str:
    """``text`` whose URLs have neither user and password nor a query."""
    return _QUERY.sub(r"\1", _USER.sub("://", text))
