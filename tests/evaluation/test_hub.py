import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reground.core.errors import ConfigurationError, DataError
from reground.evaluation.data import HUB, data_path, data_root, is_hub
from reground.evaluation.tasks import load_task
from reground.evaluation.tasks.qa import hub_file

FILES = "/datasets/RUC-NLPIR/FlashRAG_datasets/resolve/main/"
QUESTION = {
    "id": "dev_0",
    "question": "Which year?",
    "golden_answers": ["1564"],
    "metadata": {"type": "bridge", "supporting_facts": {"title": ["A"], "sent_id": [0]}},
}


class Hub(ThreadingHTTPServer):
    """Imitates a model hub: files by path, redirected once as hubs do; counts what was asked for."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.files: dict[str, bytes] = {}
        self.asked: list[str] = []
        self.cut = False


class _Handler(BaseHTTPRequestHandler):
    server: Hub

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        if self.path.startswith("/datasets/"):
            found = self.path.removeprefix(FILES) in self.server.files
            self.send_response(302 if found else 404)
            self.send_header("Location", "/cdn/" + self.path.removeprefix(FILES))
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        body = self.server.files[self.path.removeprefix("/cdn/")]
        self.send_response(200)
        self.send_header("Content-Length", str(len(body) + (100 if self.server.cut else 0)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *args: object) -> None:
        """Say nothing."""


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    server = Hub()
    monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{server.server_port}/")
    thread = threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()
    thread.join()


def test_a_task_comes_from_the_hub_once(hub: Hub) -> None:
    hub.files["hotpotqa/dev.jsonl"] = json.dumps(QUESTION).encode() + b"\n"
    task = load_task("hotpotqa", data_root(HUB))
    assert [(example.id, example.golden_answers) for example in task.examples()] == [("dev_0", ("1564",))]
    assert task.corpus is None  # type: ignore[attr-defined]
    asked = len(hub.asked)
    assert load_task("hotpotqa", HUB).examples() == task.examples()
    assert len(hub.asked) == asked == 2


def test_what_the_hub_lacks_is_told_with_what_to_do(hub: Hub) -> None:
    with pytest.raises(DataError, match=r"has no datasets/RUC-NLPIR/FlashRAG_datasets:musique/dev.jsonl; .*--data DIR"):
        load_task("musique", HUB)
    with pytest.raises(DataError, match=r"theoremqa/test.jsonl is not available from the hub; .*--data DIR"):
        load_task("theoremqa", HUB)


def test_a_page_in_place_of_data_is_refused_and_not_kept(hub: Hub) -> None:
    hub.files["nq/test.jsonl"] = b"<html>sign in</html>"
    with pytest.raises(DataError, match="is something else"):
        hub_file("nq/test.jsonl")
    hub.files["nq/test.jsonl"] = b"{}\n"
    assert hub_file("nq/test.jsonl").read_bytes() == b"{}\n"


def test_a_cut_download_is_not_taken_for_the_whole(hub: Hub) -> None:
    hub.files["nq/test.jsonl"] = b"{}\n"
    hub.cut = True
    with pytest.raises(DataError, match="the connection ended after 3 of 103 bytes"):
        hub_file("nq/test.jsonl")
    hub.cut = False
    assert hub_file("nq/test.jsonl").read_bytes() == b"{}\n"


def test_an_unreachable_hub_is_told(hub: Hub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(DataError, match=r"could not download nq/test.jsonl from http://127.0.0.1:1: .*--data DIR"):
        hub_file("nq/test.jsonl")
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(ConfigurationError, match="HF_ENDPOINT"):
        hub_file("nq/test.jsonl")


def test_a_folder_called_hub_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert is_hub(data_root(HUB))
    (tmp_path / "hub" / "set").mkdir(parents=True)
    assert not is_hub(data_root(HUB))
    assert data_path(HUB, "set") == HUB / "set"
