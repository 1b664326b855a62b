"""A headless Chromium that opens a file, driven by the DevTools protocol over two pipes."""

import base64
import json
import os
import select
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
LONGEST_S = 60.0

# The browser reads from 3 and writes to 4; these may be other numbers here.
_LAUNCHER = """
import fcntl, os, sys
read, write = (fcntl.fcntl(int(one), fcntl.F_DUPFD, 10) for one in sys.argv[1:3])
os.dup2(read, 3); os.dup2(write, 4)
os.execv(sys.argv[3], sys.argv[3:])
"""


def chromium() -> str | None:
    """Path of a Chromium; None where there is none."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@dataclass
class Page:
    """The one page of a browser."""

    commands: int
    answers: int
    session: str = ""
    events: list[dict[str, Any]] = field(default_factory=list)
    _number: int = 0
    _left: bytes = b""

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a method of the protocol."""
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.commands, json.dumps(message).encode() + b"\0")
        while True:
            found = self._next()
            if found.get("id") == self._number:
                assert "error" not in found, found["error"]
                result: dict[str, Any] = found["result"]
                return result
            self.events.append(found)

    def wait_for(self, method: str) -> None:
        """Until that event has come since the last call of this."""
        while True:
            while self.events:
                if self.events.pop(0).get("method") == method:
                    return
            self.events.append(self._next())

    def value(self, expression: str) -> Any:
        """What a line of JavaScript gives, run beside the page."""
        found = self.send("Runtime.evaluate", expression=expression, returnByValue=True)
        assert "exceptionDetails" not in found, found
        return found["result"].get("value")

    def open(self, url: str, width: int, height: int, *, dark: bool = False) -> list[str]:
        """Open a page in a window of that size; returns what its console shows."""
        self.send(
            "Emulation.setDeviceMetricsOverride",
            width=width, height=height, deviceScaleFactor=1, mobile=width < 600,
        )  # fmt: skip
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[scheme])
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{domain}.enable")
        self.events.clear()
        self.send("Page.navigate", url=url)
        seen = list(self.events)
        while not any(one.get("method") == "Page.loadEventFired" for one in seen):
            seen.append(self._next())
        self.send("Runtime.evaluate", expression="1")
        return [told for one in (*seen, *self.events) if (told := _complaint(one, url))]

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """Save what the page looks like as PNG."""
        found = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))

    def _next(self) -> dict[str, Any]:
        until = time.monotonic() + LONGEST_S
        while b"\0" not in self._left:
            ready, _, _ = select.select([self.answers], [], [], max(until - time.monotonic(), 0))
            assert ready, f"Chromium says nothing for {LONGEST_S:g} s"
            piece = os.read(self.answers, 1 << 16)
            assert piece, "Chromium has ended"
            self._left += piece
        message, _, self._left = self._left.partition(b"\0")
        found: dict[str, Any] = json.loads(message)
        return found


def _complaint(event: Mapping[str, Any], url: str) -> str:
    """What an event says of the page that a clean page does not cause; else empty."""
    parameters = event.get("params", {})
    if event.get("method") == "Network.requestWillBeSent":
        asked = parameters["request"]["url"]
        return "" if asked == url else f"request: {asked}"
    if event.get("method") == "Log.entryAdded":
        return str(parameters["entry"]["text"])
    if event.get("method") in ("Runtime.consoleAPICalled", "Runtime.exceptionThrown"):
        return json.dumps(parameters)
    return ""


@contextmanager
def browser(program: str, profile: Path) -> Iterator[Page]:
    """A browser with an empty ``profile``, ended afterwards."""
    theirs_in, commands = os.pipe()
    answers, theirs_out = os.pipe()
    flags = (
        *("--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe"),
        *("--disable-dev-shm-usage", "--no-first-run", "--disable-background-networking"),
        f"--user-data-dir={profile}",
    )
    launch = [sys.executable, "-c", _LAUNCHER, str(theirs_in), str(theirs_out), program, *flags]
    with subprocess.Popen(
        [*launch, "about:blank"],
        pass_fds=(theirs_in, theirs_out),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as process:
        os.close(theirs_in)
        os.close(theirs_out)
        page = Page(commands, answers)
        try:
            targets = page.send("Target.getTargets")["targetInfos"]
            target = next(one["targetId"] for one in targets if one["type"] == "page")
            attached = page.send("Target.attachToTarget", targetId=target, flatten=True)
            page.session = attached["sessionId"]
            yield page
            page.session = ""
            page.send("Browser.close")
        finally:
            os.close(commands)
            os.close(answers)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
