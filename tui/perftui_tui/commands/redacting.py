"""The text of a report, redacted where that was asked for."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from perftui_tui.commands.line import UsageError

if TYPE_CHECKING:
    from perftui.report.report import Report


def text_of(render: Callable[[Report], str], found: Report) -> str:
    """What ``render`` makes of the report.

    Raises:
        UsageError: it is to be redacted, and something private would be left in it.
    """
    from perftui.report.redaction.redact import rendered
    from perftui.report.redaction.redactor import RedactionError

    try:
        return rendered(render, found)
    except RedactionError as error:
        raise UsageError(str(error)) from error
