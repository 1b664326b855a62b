"""What a damaged file looks like to whoever decodes it."""

from __future__ import annotations

import msgspec

DAMAGE = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)
"""What decoding JSON that was cut off, overwritten or made to do harm may raise."""
