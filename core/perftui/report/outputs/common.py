"""Kinds of values that several outputs hold."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

Ns = Annotated[int, Meta(description="Nanoseconds.")]
Share = Annotated[float, Meta(description="A share, 0 to 1.")]
Command = Annotated[
    list[str] | None,
    Meta(description="The exact command to run next, one word per item; null if there is none."),
]
Ratio = Annotated[
    float | None,
    Meta(description="Step time before divided by after: above 1 is faster; null if not known."),
]
Redacted = Annotated[
    list[str] | None,
    Meta(description="What was replaced for --redact; null if nothing was."),
]
Schema = Annotated[
    int, Meta(description="Increases when a field is removed or changes its meaning.")
]
