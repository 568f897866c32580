"""An S3 server on loopback that notes every request; it keeps objects in memory, and a test may interfere."""

from __future__ import annotations

import threading
import urllib.request
import uuid
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import obstore
import pytest
from moto.server import DomainDispatcherApplication, create_backend_app
from obstore.store import S3Store
from werkzeug.serving import WSGIRequestHandler, make_server

KEY, SECRET = "AKIATESTTESTTESTTEST", "the-secret-key-of-the-test"


class _Quiet(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: object) -> None:
        pass


class S3:
    """A server with a bucket. requests: the method and the path of each, in order.

    before: called with both before a request is answered. refuse: answers with this status and body instead.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[str, str]] = []
        self.before: Callable[[str, str], object] = lambda method, path: None
        self.refuse: tuple[str, str] | None = None
        self.bucket = f"b{uuid.uuid4().hex[:12]}"
        self._app = DomainDispatcherApplication(create_backend_app)
        self._server = make_server("127.0.0.1", 0, self._answer, threaded=True, request_handler=_Quiet)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self.address = f"s3://{self.bucket}/some/docs"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def _answer(self, environ: dict[str, Any], start: Any) -> Iterable[bytes]:
        method, path = environ["REQUEST_METHOD"], environ["PATH_INFO"]
        self.requests.append((method, path))
        self.before(method, path)
        if self.refuse is not None:
            status, body = self.refuse
            start(status, [("Content-Type", "application/xml"), ("Content-Length", str(len(body)))])
            return [body.encode()]
        return self._app(environ, start)

    def objects(self) -> S3Store:
        """What lies under the address, for tests that look or interfere."""
        return S3Store(
            self.bucket, prefix="some/docs", endpoint=self.url, region="us-east-1", access_key_id=KEY,
            secret_access_key=SECRET, client_options={"allow_http": True},
        )  # fmt: skip

    def names(self) -> dict[str, bytes]:
        """The objects under the address."""
        store = self.objects()
        listed = [meta["path"] for chunk in obstore.list(store) for meta in chunk]
        return {name: bytes(obstore.get(store, name).bytes()) for name in listed}

    def since(self, start: int, method: str) -> list[str]:
        """The names that were asked for by a method since the request of a number."""
        return [path.rpartition("some/docs/")[2] for made, path in self.requests[start:] if made == method]

    def close(self) -> None:
        """Stop answering."""
        self._server.shutdown()
        self._server.server_close()


def set_keys(monkeypatch: pytest.MonkeyPatch, url: str) -> None:
    """The environment with which the server is reached; a cloud's metadata server is not."""
    values = {
        "AWS_ENDPOINT_URL": url, "AWS_ALLOW_HTTP": "true", "AWS_REGION": "us-east-1", "AWS_ACCESS_KEY_ID": KEY,
        "AWS_SECRET_ACCESS_KEY": SECRET, "AWS_METADATA_ENDPOINT": "http://127.0.0.1:9",
    }  # fmt: skip
    for name, value in values.items():
        monkeypatch.setenv(name, value)


@contextmanager
def s3_server(monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    """A server with an empty bucket, and the environment for it."""
    server = S3()
    set_keys(monkeypatch, server.url)
    request = urllib.request.Request(f"{server.url}/{server.bucket}", method="PUT")
    signed = "Credential=x/20200101/us-east-1/s3/aws4_request, SignedHeaders=host, Signature=x"
    request.add_header("Authorization", f"AWS4-HMAC-SHA256 {signed}")
    urllib.request.urlopen(request).close()
    try:
        yield server
    finally:
        server.close()
