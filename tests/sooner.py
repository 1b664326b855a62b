"""Has the trainings of a file of tests start sooner."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

LATE = Path(__file__).parent / "core/agent/late"
"""What puts off the imports of torch that short trainings do without; first in ``PYTHONPATH``."""


@pytest.fixture(scope="module")
def start_sooner() -> Iterator[None]:
    """From here to the end of the file, whatever starts Python puts off these imports."""
    paths = [str(LATE), os.environ.get("PYTHONPATH", "")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", os.pathsep.join(filter(None, paths)))
        yield
