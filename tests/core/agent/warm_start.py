"""Starts trainings from a process that has imported torch already."""

import contextlib
import io
import json
import os
import selectors
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO, Any

WARM = Path(__file__).parent / "warm"
"""What makes an interpreter wait for trainings; says how."""


class WarmStart:
    """Runs ``train.py`` of any directory as a new interpreter would, one at a time."""

    def __init__(self, home: Path, env: dict[str, str]) -> None:
        self._link = home / "at"
        """Where the interpreter was told that its script is: the path cannot be changed later."""
        self._said = home / "stderr"
        self._client, server = socket.socketpair()
        with server, self._said.open("wb") as said:
            self._process = subprocess.Popen(
                [sys.executable, str(self._link / "train.py")],
                env={**env, "PYTHONPATH": str(WARM)},
                stdin=server,
                stdout=server,
                stderr=said,
            )
        self._answers: IO[bytes] = self._client.makefile("rb")

    def run(
        self, folder: Path, args: tuple[str, ...], env: dict[str, str], timeout: float
    ) -> subprocess.CompletedProcess[str]:
        """What ``subprocess.run`` of the script would return.

        Raises:
            RuntimeError: the process that forks has ended, and what it said.
            TimeoutError: the training has not ended in ``timeout`` seconds.
        """
        self._link.unlink(missing_ok=True)
        self._link.symlink_to(folder)
        reads, writes = zip(os.pipe(), os.pipe(), strict=True)
        try:
            self._ask({"folder": str(folder), "args": args, "env": env}, writes)
            child = self._answer()
            try:
                out, err = _read_all(reads, timeout)
            except BaseException:
                os.kill(child, signal.SIGKILL)
                raise
            finally:
                code = self._answer()
        finally:
            for file in reads:
                os.close(file)
        return subprocess.CompletedProcess(args, code, _text(out), _text(err))

    def _ask(self, asked: dict[str, Any], files: tuple[int, ...]) -> None:
        try:
            # That it has ended is seen when it does not answer.
            with contextlib.suppress(BrokenPipeError):
                socket.send_fds(self._client, [b" "], files)
                self._client.sendall(json.dumps(asked).encode() + b"\n")
        finally:
            for file in files:
                os.close(file)

    def _answer(self) -> int:
        line = b""
        with contextlib.suppress(ConnectionResetError):
            line = self._answers.readline()
        if not line:
            raise RuntimeError(f"the process that forks has ended: {self._said.read_text()}")
        return int(line)

    def close(self) -> None:
        """End the process that forks."""
        self._answers.close()
        self._client.close()
        self._process.wait()


def _read_all(files: tuple[int, ...], timeout: float) -> list[bytes]:
    read = dict.fromkeys(files, b"")
    until = time.monotonic() + timeout
    with selectors.DefaultSelector() as waiting:
        for file in files:
            waiting.register(file, selectors.EVENT_READ)
        while waiting.get_map():
            ready = waiting.select(max(until - time.monotonic(), 0))
            if not ready:
                raise TimeoutError(f"still running after {timeout} s; so far: {read}")
            for key, _ in ready:
                part = os.read(key.fd, 1 << 16)
                read[key.fd] += part
                if not part:
                    waiting.unregister(key.fd)
    return list(read.values())


def _text(data: bytes) -> str:
    """As ``subprocess`` reads it with ``text=True``."""
    return io.TextIOWrapper(io.BytesIO(data)).read()
