"""An index on object storage, against an S3 server on loopback."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import obstore
import pytest

from reground.core.errors import ConfigurationError
from reground.retrieval.folder import read_manifest
from reground.retrieval.index import build_index, open_index
from reground.retrieval.remote import cached_at, pull, push
from reground.retrieval.settings import Progress
from reground.retrieval.stores import Store, StoreError, address_of
from tests.object_store import KEY, S3, SECRET, s3_server
from tests.retrieval.corpora import write

PUSHES = """
import sys
from pathlib import Path
from reground.retrieval.remote import push

push(Path(sys.argv[1]), sys.argv[2])
"""
PULLS = "import sys; from reground.retrieval.remote import pull; print(pull(sys.argv[1]).path)"


@pytest.fixture
def s3(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[S3]:
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path / "home"))
    with s3_server(monkeypatch) as server:
        yield server


def built(folder: Path, **texts: str) -> Path:
    """An index of these texts, brought up to date if it is there."""
    write(folder, {f"docs/{name}.md": f"# {name}\n\n{text}\n" for name, text in texts.items()})
    build_index(folder / "docs", folder / "docs.idx")
    return folder / "docs.idx"


def found(index: Path, query: str) -> list[str]:
    retriever = open_index(index)
    return [passage.id for passage in asyncio.run(retriever.retrieve(query, k=1))]


def refusal(address: str) -> str:
    with pytest.raises(StoreError) as refused:
        pull(address)
    said = str(refused.value)
    assert "\n" not in said and SECRET not in said and KEY not in said
    assert refused.value.__cause__ is None
    return said


@pytest.mark.parametrize(
    ("given", "address"),
    [
        ("s3://bucket/a/b", "s3://bucket/a/b"),
        (Path("s3://bucket/a/b"), "s3://bucket/a/b"),
        ("s3://bucket/a//b/", "s3://bucket/a/b"),
        ("gs://bucket", "gs://bucket"),
        ("az://account/container/a", "az://account/container/a"),
        ("docs/", None),
        ("s3:", None),
        ("./s3:/bucket", None),
        ("https://example.org/a", None),
    ],
)
def test_an_address_is_told_from_a_path(given: str | Path, address: str | None) -> None:
    assert address_of(given) == address


@pytest.mark.parametrize("given", ["s3://KEY:hidden@bucket/a", "az://a/c?sig=hidden", "s3://bucket/../a", "s3:/"])
def test_an_address_with_a_key_or_without_a_bucket_is_refused(given: str) -> None:
    with pytest.raises(ConfigurationError) as refused:
        address_of(given)
    assert "hidden" not in str(refused.value)


def test_what_was_pushed_is_found_by_another_cache(s3: S3, tmp_path: Path) -> None:
    index, seen = built(tmp_path, cats="Cats purr.", owls="Owls hoot."), list[Progress]()
    pushed = push(index, s3.address, progress=seen.append)
    assert pushed.sent == pushed.files == len(read_manifest(index).files) + 1
    assert s3.since(0, "PUT")[-1] == "latest.json"
    assert (seen[-1].done, seen[-1].transfer) == (seen[-1].size, f"uploading to {s3.address}")
    pulled = pull(s3.address, progress=seen.append)
    assert (seen[-1].done, seen[-1].transfer) == (seen[-1].size, f"downloading {s3.address}")
    assert pulled.path.is_relative_to(tmp_path / "home") and not pulled.note
    assert found(pulled.path, "hoot") == ["owls.md"]
    assert open_index(pulled.path).name == open_index(index).name


def test_a_version_in_the_cache_costs_one_request(s3: S3, tmp_path: Path) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    first, before = pull(s3.address), len(s3.requests)
    assert pull(s3.address) == first
    assert s3.requests[before:] == [("GET", f"/{s3.bucket}/some/docs/latest.json")]


def test_a_change_moves_only_what_changed(s3: S3, tmp_path: Path) -> None:
    first = push(built(tmp_path, cats="Cats purr."), s3.address)
    pull(s3.address)
    again = push(tmp_path / "docs.idx", s3.address)
    assert (again.sent, again.version) == (0, first.version)
    old, start = s3.names(), len(s3.requests)
    second = push(built(tmp_path, cats="Cats purr.", owls="Owls hoot."), s3.address)
    new = s3.names()
    assert 0 < second.sent < second.files and second.version != first.version
    assert len(s3.since(start, "PUT")) == second.sent + 1
    start = len(s3.requests)
    assert found(pull(s3.address).path, "hoot") == ["owls.md"]
    assert set(s3.since(start, "GET")) == {"latest.json", *(new.keys() - old.keys())}


def test_a_large_file_is_sent_in_parts(s3: S3, tmp_path: Path) -> None:
    store = Store(s3.address)
    content = [bytes([number]) * (5 << 20) for number in range(3)]
    store.write("files/large", iter(content))
    assert store.sizes("files") == {"large": 15 << 20}
    assert b"".join(store.blocks("files/large", 15 << 20)) == b"".join(content)


@pytest.mark.parametrize("allowed", [0, 2])
def test_a_push_that_is_killed_leaves_the_former_version(s3: S3, tmp_path: Path, allowed: int) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    latest = s3.names()["latest.json"]
    index, sent = built(tmp_path, cats="Cats purr.", owls="Owls hoot."), []

    def kill(method: str, path: str) -> None:
        if method == "PUT":
            sent.append(path)
            if len(sent) > allowed:
                process.kill()
                process.wait()

    s3.before = kill
    process = subprocess.Popen([sys.executable, "-c", PUSHES, str(index), s3.address])
    assert process.wait(60) == -9
    s3.before = lambda method, path: None
    assert s3.names()["latest.json"] == latest
    assert found(pull(s3.address).path, "owls") == []
    assert push(index, s3.address).sent > 0
    assert found(pull(s3.address).path, "owls") == ["owls.md"]


def test_a_damaged_object_is_refused_and_leaves_nothing_in_the_cache(s3: S3, tmp_path: Path) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    name, content = max(s3.names().items(), key=lambda pair: len(pair[1]))
    obstore.put(s3.objects(), name, content[:-1] + bytes([content[-1] ^ 1]))
    assert "has other content than was pushed; remove it there and push again" in refusal(s3.address)
    assert list(cached_at(s3.address).iterdir()) == []
    obstore.delete(s3.objects(), name)
    assert "is damaged: it has no files/" in refusal(s3.address)
    assert list(cached_at(s3.address).iterdir()) == []
    assert push(tmp_path / "docs.idx", s3.address).sent == 1
    assert found(pull(s3.address).path, "purr") == ["cats.md"]


@pytest.mark.parametrize(
    "change",
    [
        {"version": "../../elsewhere"},
        {"files": {"../elsewhere": {"size": 1, "sha256": "0" * 64}, "manifest.json": {"size": 1, "sha256": "0" * 64}}},
        {"files": {"manifest.json": {"size": 1, "sha256": "../latest.json"}}},
        {"files": {}},
        {"format_version": 2},
        {"format": "other"},
    ],
)
def test_a_latest_that_cannot_be_trusted_is_refused(s3: S3, tmp_path: Path, change: dict[str, object]) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    latest = json.loads(s3.names()["latest.json"])
    obstore.put(s3.objects(), "latest.json", json.dumps(latest | change).encode())
    assert "push the index again" in refusal(s3.address)
    obstore.put(s3.objects(), "latest.json", b"\xff no json")
    assert "push the index again" in refusal(s3.address)
    assert not cached_at(s3.address).exists()


def test_an_index_of_another_format_is_refused_before_it_is_downloaded(s3: S3, tmp_path: Path) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    latest = json.loads(s3.names()["latest.json"])
    manifest = b'{"format": "reground-index", "version": 99}'
    latest["files"]["manifest.json"] = {"size": len(manifest), "sha256": hashlib.sha256(manifest).hexdigest()}
    obstore.put(s3.objects(), f"files/{hashlib.sha256(manifest).hexdigest()}", manifest)
    obstore.put(s3.objects(), "latest.json", json.dumps(latest).encode())
    start = len(s3.requests)
    assert "not one that this version of reground reads" in refusal(s3.address)
    assert len(s3.requests) == start + 2


def test_a_store_that_is_away_leaves_the_cached_version(s3: S3, tmp_path: Path) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    first = pull(s3.address)
    s3.refuse = ("503 Service Unavailable", "")
    away = pull(s3.address)
    assert away.path == first.path
    assert "does not answer" in away.note and "from the cache" in away.note and "\n" not in away.note
    s3.close()
    assert pull(s3.address).path == first.path
    shutil.rmtree(first.path)
    assert "does not answer" in refusal(s3.address)


def test_what_was_downloaded_is_kept_when_the_store_goes_away(s3: S3, tmp_path: Path) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    files = s3.names().keys() - {"latest.json"}

    def fail(method: str, path: str) -> None:
        if len([name for name in s3.since(start, "GET") if name in files]) == 4:
            s3.refuse = ("503 Service Unavailable", "")

    start, s3.before = len(s3.requests), fail
    assert "does not answer" in refusal(s3.address)
    s3.before, s3.refuse, start = lambda method, path: None, None, len(s3.requests)
    assert found(pull(s3.address).path, "purr") == ["cats.md"]
    assert len(s3.since(start, "GET")) == 1 + len(files) - 3


def test_a_damaged_copy_in_the_cache_is_fetched_again(s3: S3, tmp_path: Path) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    path = pull(s3.address).path
    file = max(path.rglob("*.*"), key=lambda file: file.stat().st_size)
    file.write_bytes(b"x" * file.stat().st_size)
    start = len(s3.requests)
    assert found(pull(s3.address).path, "purr") == ["cats.md"]
    assert len(s3.since(start, "GET")) == 2


def test_the_newest_two_versions_and_those_that_are_read_stay_in_the_cache(s3: S3, tmp_path: Path) -> None:
    paths, held = [], []
    for number in range(4):
        push(built(tmp_path, cats="Cats purr.", **{f"n{number}": "More."}), s3.address)
        paths.append(pull(s3.address).path)
        held += [open_index(paths[0])] if number == 0 else []
        time.sleep(0.02)
    assert [path.exists() for path in paths] == [True, False, True, True]
    assert asyncio.run(held[0].retrieve("purr", k=1))


def test_processes_at_once_download_once(s3: S3, tmp_path: Path) -> None:
    push(built(tmp_path, cats="Cats purr."), s3.address)
    files, start = s3.names().keys() - {"latest.json"}, len(s3.requests)
    command = [sys.executable, "-c", PULLS, s3.address]
    processes = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    said = {process.communicate(timeout=120)[0] for process in processes}
    assert len(said) == 1 and [process.returncode for process in processes] == [0, 0]
    assert sorted(s3.since(start, "GET")) == sorted([*files, "latest.json", "latest.json"])


def test_errors_say_what_to_do(s3: S3, monkeypatch: pytest.MonkeyPatch) -> None:
    assert f"there is no index at {s3.address}: reground index" in refusal(s3.address)
    assert "there is no bucket" in refusal("s3://no-such-bucket-is-there/docs")
    told = (
        f"<Error><Code>{{}}</Code><AWSAccessKeyId>{KEY}</AWSAccessKeyId><StringToSign>{SECRET}</StringToSign></Error>"
    )
    for status, code, words in [
        ("403 Forbidden", "AccessDenied", "is denied: the keys need the right"),
        ("403 Forbidden", "SignatureDoesNotMatch", "are wrong or too old"),
        ("403 Forbidden", "InvalidAccessKeyId", "are wrong or too old"),
        ("400 Bad Request", "ExpiredToken", "are wrong or too old"),
        ("400 Bad Request", "AuthorizationHeaderMalformed", "set AWS_REGION"),
        ("418 Teapot", "Other", "refuses (status 418)"),
        ("500 Oh", "Other", "does not answer"),
    ]:
        s3.refuse = (status, told.format(code))
        assert words in refusal(s3.address)
    s3.refuse = None
    monkeypatch.delenv("AWS_ALLOW_HTTP")
    assert "AWS_ALLOW_HTTP=true" in refusal(s3.address)
    monkeypatch.setenv("AWS_ALLOW_HTTP", "true")
    monkeypatch.delenv("AWS_ACCESS_KEY_ID")
    monkeypatch.delenv("AWS_SECRET_ACCESS_KEY")
    assert "set AWS_ACCESS_KEY_ID" in refusal(s3.address)


def test_a_damaged_index_is_not_pushed(s3: S3, tmp_path: Path) -> None:
    index = built(tmp_path, cats="Cats purr.")
    file = next(index.glob("data-*/ledger.sqlite"))
    os.truncate(file, 10)
    with pytest.raises(Exception, match="is damaged"):
        push(index, s3.address)
    assert s3.names() == {}


def test_the_extra_is_named_where_it_is_missing(tmp_path: Path) -> None:
    code = "import sys; sys.modules['obstore'] = None; from reground.retrieval.remote import pull; pull('s3://b/docs')"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=tmp_path, check=False)
    assert "s3://b/docs needs the extra [s3]: pip install 'reground[s3]'" in done.stderr
