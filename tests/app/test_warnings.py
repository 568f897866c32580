"""What reground's loggers say of a server reaches a terminal without what acts on it."""

from __future__ import annotations

import json
import logging
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from reground.app.cli import run

ACTS = "\x1b]0;TITLE\x07\x1b[2J\x1b[31mfake\x9b1A\u202e"


class Hostile(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        reply = json.dumps({"error": ACTS}).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(reply)))
        self.end_headers()
        self.wfile.write(reply)

    def log_message(self, *said: object) -> None:
        pass


@pytest.fixture
def url() -> Iterator[str]:
    with HTTPServer(("127.0.0.1", 0), Hostile) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"searxng:http://127.0.0.1:{server.server_port}"
        server.shutdown()


def test_a_server_cannot_act_on_the_terminal(url: str) -> None:
    command = [sys.executable, "-m", "reground", "retrieve", "q", "--web", f"{url},{url}/b"]
    said = subprocess.run(command, capture_output=True, check=False).stderr.decode()
    assert f"search engine {url} gave no results" in said and "fake" in said
    assert not {"\x1b", "\x07", "\x9b", "\u202e"} & set(said)


def test_warnings_of_every_logger_are_cleaned_and_the_logger_is_left_as_it_was(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path_factory: pytest.TempPathFactory
) -> None:
    folder = tmp_path_factory.mktemp("method")
    (folder / "warns.py").write_text(
        f'"""Warns."""\nimport logging\nlogging.getLogger("reground.core.journal").warning({ACTS!r})\n'
    )
    monkeypatch.chdir(folder)
    log = logging.getLogger("reground")
    before = log.propagate, list(log.handlers)
    run(["methods", "./warns.py"])
    assert (log.propagate, log.handlers) == before
    said = capsys.readouterr().err
    assert "]0;TITLE[2J[31mfake1A" in said and "\x1b" not in said
