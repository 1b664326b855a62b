"""A web server that lists a directory, asks for a password, and breaks where it is told to."""

from __future__ import annotations

import base64
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread

USER, PASSWORD = "ada", "s3cret"
CUT, CHANGED, REFUSED = "cut", "changed", "refused"
"""Files beside which a file of such an ending lies are sent in half, change, or are refused."""

_ALLOWED = "Basic " + base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
_numbers = itertools.count()


class _Handler(SimpleHTTPRequestHandler):
    def do_GET(self) -> None:
        if self._may():
            path = Path(self.translate_path(self.path))
            if self._is(CUT):
                self.send_response(200)
                self.send_header("Content-Length", str(path.stat().st_size))
                self.end_headers()
                self.wfile.write(path.read_bytes()[: path.stat().st_size // 2])
            else:
                super().do_GET()

    def do_HEAD(self) -> None:
        if self._may():
            super().do_HEAD()

    def end_headers(self) -> None:
        if self._is(CHANGED):
            self.send_header("ETag", f'"{next(_numbers)}"')
        super().end_headers()

    def _may(self) -> bool:
        if self.headers.get("Authorization") != _ALLOWED:
            self.send_error(401)
            return False
        if self._is(REFUSED):
            self.send_error(403)
            return False
        return True

    def _is(self, what: str) -> bool:
        return Path(self.translate_path(self.path)).with_suffix(f".{what}").exists()

    def log_message(self, *_: object) -> None:
        """Tests read stderr."""


@contextmanager
def served(folder: Path) -> Iterator[str]:
    """The address of ``folder``, with the password in it."""
    handler = partial(_Handler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield f"http://{USER}:{PASSWORD}@127.0.0.1:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
