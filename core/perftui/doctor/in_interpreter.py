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
    # Modules beside this file are none of the interpreter's.
    del sys.path[0]
    armed = [one for one in sys.meta_path if type(one).__name__ == "TorchFinder"]
    for one in armed:
        sys.meta_path.remove(one)
    site = sys.modules.get("sitecustomize")
    found = {
        "version": ".".join(map(str, sys.version_info[:3])),
        "executable": sys.executable,
        "armed": bool(armed),
        "other_sitecustomize": getattr(site, "__file__", None),
        "ignores_environment": bool(sys.flags.ignore_environment or sys.flags.no_site),
        "compiled": _loads(sys.argv[1]),
        **_torch(),
    }
    print(json.dumps(found))


def _loads(library: str) -> bool:
    """Whether the agent would use it here; as in ``agent/native``."""
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
    known: dict[str, Any] = {}
    try:
        # A file of constants, which torch itself imports.
        with open(os.path.join(directory, "version.py"), encoding="utf-8") as file:
            exec(compile(file.read(), "version.py", "exec"), known)  # noqa: S102
    except (OSError, SyntaxError, ImportError):
        # Of a torch that is built in another way nothing is known but that it is there.
        known = {}
    return {
        "torch": str(known.get("__version__", "")),
        "cuda": known.get("cuda"),
        "hip": known.get("hip"),
        # Beside torch's own libraries, or in a package of NVIDIA's.
        "cupti": sorted(
            path
            for place in ("torch/lib", "nvidia/*/lib")
            for path in glob.glob(f"{os.path.dirname(directory)}/{place}/libcupti*.so*")
        ),
    }


if __name__ == "__main__":
    main()
