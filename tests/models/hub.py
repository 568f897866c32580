"""A hub of models on loopback."""

import contextlib
import hashlib
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

BODY = b"GGUF" + bytes(range(256)) * 20_000
NAME = "org/repo:sub/tiny.gguf"
KEPT = "org--repo/sub/tiny.gguf"


class Hub:
    """A hub that redirects to a store of its own on another port, as the real one does."""

    def __init__(self):
        self.seen = []
        self.body = BODY
        self.sha256 = hashlib.sha256(BODY).hexdigest()
        self.cut_after = None
        self.held = None  # an event: the rest of a file is sent when it is set
        self.status = 302
        self.store = self._serve(self._store)
        self.front = self._serve(self._front)

    def _serve(self, answer):
        class Handler(BaseHTTPRequestHandler):
            def do_GET(self):
                answer(self)

            def log_message(self, *args):
                pass

        server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        return server

    def _front(self, request):
        self.seen.append(("front", request.path, dict(request.headers)))
        request.send_response(self.status)
        if self.sha256:
            request.send_header("X-Linked-Etag", f'"{self.sha256}"')
        request.send_header("Location", f"http://127.0.0.1:{self.store.server_port}/blob")
        request.send_header("Content-Length", "0")
        request.end_headers()

    def _store(self, request):
        self.seen.append(("store", request.path, dict(request.headers)))
        asked = request.headers.get("Range")
        start = int(asked.removeprefix("bytes=").removesuffix("-")) if asked else 0
        if start >= len(self.body):
            request.send_error(416)
            return
        request.send_response(206 if asked else 200)
        request.send_header("Content-Length", str(len(self.body) - start))
        request.end_headers()
        if self.held is not None:
            request.wfile.write(self.body[start : start + 1_000_000])
            start += 1_000_000
            self.held.wait(60)
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            request.wfile.write(self.body[start : self.cut_after])

    def close(self):
        for server in (self.front, self.store):
            server.shutdown()
            server.server_close()


@pytest.fixture
def hub(monkeypatch, tmp_path):
    served = Hub()
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path))
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{served.front.server_port}/")
    monkeypatch.delenv("HF_TOKEN", raising=False)
    yield served
    served.close()
