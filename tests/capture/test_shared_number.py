"""The count by which killed trainings are judged."""

from __future__ import annotations

import subprocess
import sys

from tests.capture.watched import HERE

COUNTED = """
import os, signal, time
from shared_number import SharedNumber
number = SharedNumber()
child = os.fork()
while child == 0:
    number.store(number.read() + 1)
until = time.monotonic() + 0.5
newest = fewer = 0
while time.monotonic() < until or newest < 10_000:
    read = number.read()
    fewer += read < newest
    newest = max(newest, read)
os.kill(child, signal.SIGKILL)
os.waitpid(child, 0)
print(fewer, number.read() >= newest)
"""


def test_the_count_of_a_process_that_is_killed_is_never_less_than_it_was() -> None:
    command = (sys.executable, "-c", COUNTED)
    run = subprocess.run(command, cwd=HERE, capture_output=True, text=True, check=True)

    assert run.stdout == "0 True\n"
