"""Why a source file is not patched."""

from __future__ import annotations


class PatchRefusedError(ValueError):
    """The change is not certain to do what was meant; the message says why, for a person."""
