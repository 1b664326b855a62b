"""Run by the interpreter that trains: prints as JSON what it is. Standard library only.

``python in_interpreter.py LIBRARY`` tries to load ``LIBRARY``, the agent's compiled part. torch is
looked for and its version read, but it is not imported, which would take seconds.
"""

# ruff: noqa: PTH110, PTH118, PTH120, PTH123, PTH207
from __future__ import annotations

import glob
import json
import os
import sys
from importlib import util
from typing import Any


def main() -> None:
    """Print one line of JSON."""
    # Modules beside this file must not be imported by the interpreter.
    del sys.path[0]
    armed = [finder for finder in sys.meta_path if type(finder).__name__ == "TorchFinder"]
    for finder in armed:
        sys.meta_path.remove(finder)
    site = sys.modules.get("sitecustomize")
    answer = {
        "version": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "armed": bool(armed),
        "other_sitecustomize": getattr(site, "__file__", None),
        "ignores_environment": bool(sys.flags.ignore_environment or sys.flags.no_site),
        "compiled": _loads(sys.argv[1]),
        **_torch(),
    }
    print(json.dumps(answer))


def _loads(library: str) -> bool:
    """Whether the agent would use its compiled part here; as in ``agent/native``."""
    if sys.version_info < (3, 10) or "t" in sys.abiflags or not os.path.exists(library):
        return False
    spec = util.spec_from_file_location("_compiled", library)
    try:
        util.module_from_spec(spec)  # type: ignore[arg-type]  # None fails as a bad library does
    except (ImportError, AttributeError):
        return False
    return True


def _torch() -> dict[str, Any]:
    spec = util.find_spec("torch")
    if spec is None or spec.origin is None:
        return {"torch": None, "cuda": None, "hip": None, "cupti": []}
    directory = os.path.dirname(spec.origin)
    constants: dict[str, Any] = {}
    try:
        # A file of constants, which torch itself imports.
        with open(os.path.join(directory, "version.py"), encoding="utf-8") as file:
            exec(compile(file.read(), "version.py", "exec"), constants)  # noqa: S102
    except (OSError, SyntaxError, ImportError):
        # If torch is built in another way, all that is known is that it is there.
        constants = {}
    return {
        "torch": str(constants.get("__version__", "")),
        "cuda": constants.get("cuda"),
        "hip": constants.get("hip"),
        # Beside torch's own libraries, or in a package of NVIDIA's.
        "cupti": sorted(
            path
            for place in ("torch/lib", "nvidia/*/lib")
            for path in glob.glob(f"{os.path.dirname(directory)}/{place}/libcupti*.so*")
        ),
    }


if __name__ == "__main__":
    main()
