"""The compiled classes, or their plain equivalents where there are none for this Python.

The C files lie beside the Python files that use them, and use the Python API that is stable from
3.10 on.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ._compiled import CompiledAround as CompiledAround
    from ._compiled import CompiledFastPath as CompiledFastPath
    from ._compiled import CompiledPage as CompiledPage
    from ._compiled import CompiledPauses as CompiledPauses
else:
    try:
        # Objects of a Python without its lock are laid out in another way.
        if sys.version_info < (3, 10) or "t" in sys.abiflags:
            raise ImportError
        from ._compiled import CompiledAround, CompiledFastPath, CompiledPage, CompiledPauses
    except ImportError:
        from .plain import PlainFastPath, PlainPage, PlainPauses

        CompiledAround, CompiledFastPath = None, PlainFastPath
        CompiledPage, CompiledPauses = PlainPage, PlainPauses

IS_COMPILED = CompiledAround is not None
