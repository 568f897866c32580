import asyncio
import gzip
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from aiohttp import web

from reground.app.cli import run
from reground.core.errors import (
    AuthenticationError,
    ConfigurationError,
    ContextLengthExceeded,
    ModelError,
    RetrievalError,
    TransientModelError,
)
from reground.retrieval.embedders import Embedder, EndpointEmbedder, create_embedder, is_of_the_key
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings
from reground.testing.openai_server import Loopback
from tests.retrieval.corpora import write
from tests.servers import serving


class Server(Loopback):
    """Answers with the length and the first letter of each text, in reverse order; or as `replies` say first."""

    def __init__(self, *replies: Callable[[], web.Response]) -> None:
        super().__init__()
        self.replies = list(replies)
        self.bodies: list[dict[str, Any]] = []
        self.headers: list[Any] = []
        self.at_once = self.most_at_once = 0
        self.too_many: Callable[[int], web.Response | None] = lambda sent: None

    @property
    def url(self) -> str:
        return f"{self.origin}/v1"

    def application(self) -> web.Application:
        app = web.Application()
        app.router.add_post("/v1/embeddings", self.answer)
        return app

    async def answer(self, request: web.Request) -> web.Response:
        self.at_once += 1
        self.most_at_once = max(self.most_at_once, self.at_once)
        body = await request.json()
        self.bodies.append(body)
        self.headers.append(request.headers)
        await asyncio.sleep(0.01)
        self.at_once -= 1
        if self.replies:
            return self.replies.pop(0)()
        if (refusal := self.too_many(len(body["input"]))) is not None:
            return refusal
        data = [{"index": i, "embedding": [len(text), ord(text[0])]} for i, text in enumerate(body["input"])]
        return web.json_response({"data": data[::-1], "model": body["model"]})


def refuse(status: int, said: str = "no", **headers: str) -> Callable[[], web.Response]:
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return lambda: web.json_response({"error": {"message": said}}, status=status, headers=names)


async def ask(server: Server, texts: list[str], **options: Any) -> Any:
    async with server:
        embedder = EndpointEmbedder("m", base_url=f"{server.url}/?version=1", wait=0.001, **options)
        try:
            return await embedder.embed(texts)
        finally:
            await embedder.aclose()


async def test_texts_go_in_batches_and_vectors_come_back_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-test")
    server = Server()
    texts = [chr(97 + i) * (i + 1) for i in range(10)]
    vectors = await ask(server, texts, batch=3, concurrency=2)
    assert sorted(len(body["input"]) for body in server.bodies) == [1, 3, 3, 3]
    assert server.most_at_once == 2
    assert {body["model"] for body in server.bodies} == {"m"}
    assert server.headers[0]["Authorization"] == "Bearer sk-test"
    expected = np.array([[len(text), ord(text[0])] for text in texts], dtype=np.float32)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5)
    assert vectors.dtype == np.float32


@pytest.mark.parametrize(
    ("status", "said", "limit", "requests"),
    [
        (400, "batch size is invalid, it should not be larger than 10.: input.contents", 10, [40, 20, 10, 10, 10, 10]),
        (422, "batch size 40 > maximum allowed batch size 32", 32, [40, 20, 20]),
        (413, "最多20条文本", 20, [40, 20, 20]),
        (500, "input is too large to process", 20, [40, 20, 20]),
        (400, "no", 1, [40, 20, 10, 5, 2, *[1] * 40]),
    ],
)
async def test_a_server_that_takes_fewer_texts_gets_fewer_from_then_on(
    status: int, said: str, limit: int, requests: list[int]
) -> None:
    texts = [chr(97 + i % 26) * (i + 1) for i in range(40)]
    async with Server() as server:
        embedder = EndpointEmbedder("m", server.url, concurrency=1)
        server.too_many = lambda sent: refuse(status, said)() if sent > limit else None
        vectors = await embedder.embed(texts)
        assert [len(body["input"]) for body in server.bodies] == requests
        again = await embedder.embed(texts)
        assert max(len(body["input"]) for body in server.bodies[len(requests) :]) <= limit, "it is remembered"
        await embedder.aclose()
    expected = np.array([[len(text), ord(text[0])] for text in texts], dtype=np.float32)
    np.testing.assert_allclose(vectors, expected / np.linalg.norm(expected, axis=1, keepdims=True), rtol=1e-5)
    np.testing.assert_array_equal(vectors, again)


def test_the_number_of_texts_in_a_request_is_an_option_and_no_part_of_the_index(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    index = ["index", "docs", "--out", "docs.idx", "--kind", "dense", "--embedder", "openai/words", "--base-url"]
    write(tmp_path, {"docs/crane.md": "Cranes dance.", "reground.toml": "batch = 9\n"})
    for added, option, most in ((4, ("--batch", "3"), 3), (10, (), 9)):
        write(tmp_path, {f"docs/{added}-{i}.md": f"{i + 1} cranes dance." for i in range(added)})
        with serving(Server()) as server:
            assert run([*index, server.url, *option]) == 0
        sizes = [len(body["input"]) for body in server.bodies]
        assert (max(sizes), sum(sizes)) == (most, added + (added == 4)), "the vectors that are there stay"


@pytest.mark.parametrize("status", [429, 500])
async def test_what_may_pass_is_tried_again(status: int) -> None:
    server = Server(refuse(status), refuse(status, Retry_After="0.01"), lambda: web.Response(text="{"))
    assert (await ask(server, ["", "a"])).shape == (2, 2)
    assert [body["input"] for body in server.bodies] == [[" ", "a"]] * 4, "no server takes an empty text"
    with pytest.raises(TransientModelError, match=rf"answered {status}: .*busy") as raised:
        await ask(server := Server(*[refuse(status, "busy", Retry_After="0.001")] * 9), ["a"], attempts=3)
    assert (len(server.bodies), raised.value.retry_after) == (3, 0.001)


@pytest.mark.parametrize(
    ("reply", "error", "why"),
    [
        (refuse(401), AuthenticationError, "OPENAI_API_KEY"),
        (refuse(403), AuthenticationError, "refused the key"),
        (refuse(400, "maximum context length is 512 tokens"), ContextLengthExceeded, "fewer --chunk-tokens"),
        (refuse(404, "no such model"), ModelError, "answered 404: no such model"),
        (refuse(400, "sk-secret is bad"), ModelError, "is bad"),
    ],
)
async def test_what_will_not_pass_is_not_tried_again(
    reply: Callable[[], web.Response], error: type[ModelError], why: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    server = Server(reply)
    with pytest.raises(error, match=why) as raised:
        await ask(server, ["a"])
    assert len(server.bodies) == 1
    assert "sk-secret" not in str(raised.value)


@pytest.mark.parametrize(
    ("reply", "why"),
    [
        ({"data": []}, "0 embeddings for 2 texts"),
        ({"nothing": 1}, "without embeddings"),
        ({"data": [{"index": 0, "embedding": [1.0]}, {"index": 1, "embedding": [1.0, 2.0]}]}, "different lengths"),
        ({"data": [{"index": 0, "embedding": [None]}, {"index": 1, "embedding": [1.0]}]}, "other than vectors"),
        ({"data": [{"index": 0, "embedding": 3}, {"index": 1, "embedding": 3}]}, "without embeddings"),
        ({"data": [{"index": 0, "embedding": ["x"]}, {"index": 1, "embedding": ["y"]}]}, "other than vectors"),
        (b"[" * 1_500_000, "malformed reply"),
        (b'{"data": "\xff"}', "without embeddings"),
        (b"", "malformed reply"),
    ],
)
async def test_malformed_replies_are_model_errors(reply: object, why: str) -> None:
    with pytest.raises(ModelError, match=why):
        body = reply if isinstance(reply, bytes) else json.dumps(reply).encode()
        await ask(Server(lambda: web.Response(body=body)), ["a", "b"], attempts=1)


def packed(body: bytes) -> web.Response:
    return web.Response(body=gzip.compress(body, 1), headers={"Content-Encoding": "gzip"})


@pytest.mark.parametrize(
    "reply", [lambda: packed(b" " * 40_000_000), lambda: web.Response(status=500, body=b"x" * 40_000_000)]
)
async def test_a_flood_is_refused_and_not_kept(reply: Callable[[], web.Response]) -> None:
    server = Server(reply)
    with pytest.raises(ModelError, match="sent more than the 3 MiB that a reply to this call may take") as refused:
        await ask(server, ["a", "b"])
    assert not isinstance(refused.value, TransientModelError)
    assert len(server.bodies) == 1


async def test_an_unreachable_server_is_named() -> None:
    embedder = EndpointEmbedder("m", base_url="http://127.0.0.1:9/v1", attempts=2, wait=0.001)
    with pytest.raises(TransientModelError, match=r"cannot reach http://127\.0\.0\.1:9/v1/embeddings.*server running"):
        await embedder.embed(["a"])
    await embedder.aclose()


def test_it_works_on_one_loop_after_another() -> None:
    async def once() -> None:
        async with Server() as server:
            embedder._url = f"{server.url}/embeddings"
            assert (await embedder.embed(["a"])).shape == (1, 2)

    embedder = EndpointEmbedder("m", base_url="http://127.0.0.1:9/v1")
    asyncio.run(once())
    asyncio.run(once())
    asyncio.run(embedder.aclose())


def test_names_choose_the_embedder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:1/v1/")
    embedder = create_embedder("openai/some/model")
    assert isinstance(embedder, Embedder)
    assert embedder.name == "openai/some/model"
    assert embedder.limit is None
    assert create_embedder("st/all-MiniLM-L6-v2").name == "st/all-MiniLM-L6-v2"
    for wrong in ("openai", "openai/", "cohere/x", ""):
        with pytest.raises(ConfigurationError, match="no embedder"):
            create_embedder(wrong)
    for url in ("localhost:8000", "http://user:password@host/v1", "ftp://x/y"):
        with pytest.raises(ConfigurationError, match=r"must look like|holds a user"):
            create_embedder("openai/m", base_url=url)
    assert create_embedder("st/some/model-of-a-hub").weights is None


async def test_an_index_from_elsewhere_does_not_get_the_key(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-secret")
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    docs = write(tmp_path / "docs", {"a.md": "The dog is called Rex."})
    async with Server() as server:
        url = server.url
        settings = IndexSettings(kind="hybrid", embedder="openai/words", embedder_url=url)
        await asyncio.to_thread(build_index, docs, tmp_path / "index", settings)
        assert server.headers.pop()["Authorization"] == "Bearer sk-secret"

        async def search() -> None:
            index = open_index(tmp_path / "index")
            try:
                assert await index.retrieve("dog", k=1)
            finally:
                await index.aclose()

        await search()
        assert "Authorization" not in server.headers.pop()
        server.replies = [refuse(401)]
        with pytest.raises(RetrievalError, match=f"asks {url}/embeddings, which gets no key unless OPENAI_BASE"):
            await search()
        monkeypatch.setenv("OPENAI_BASE_URL", f"{url}/other")
        await search()
        assert server.headers.pop()["Authorization"] == "Bearer sk-secret"


@pytest.mark.parametrize(
    ("url", "gets"),
    [
        ("https://api.openai.com/v1", True), ("https://API.openai.com:443/v1", True), ("http://localhost:8000", True),
        ("http://api.openai.com/v1", False), ("https://api.openai.com:444/v1", False),
        ("https://api.openai.com.evil.example/v1", False), ("https://api.openai.com\\.evil.example/v1", False),
        ("http://localhost:8001", False), ("http://127.0.0.1:8000", False),
    ],
)  # fmt: skip
def test_the_key_goes_to_its_own_server_alone(url: str, gets: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:8000/v1/")
    assert is_of_the_key(url) is gets


@pytest.mark.parametrize(
    ("model", "file"),
    [("st", "query_0_Static/model.safetensors"), ("onnx", "onnx/model.onnx"), ("onnx", "1_Pooling/config.json")],
)
def test_the_weights_of_a_folder_are_those_of_its_parts_too(model: str, file: str, tmp_path: Path) -> None:
    write(tmp_path, {"model.safetensors": "one"})
    flat = create_embedder(f"{model}/{tmp_path}").weights
    assert flat == hashlib.blake2b(b"model.safetensors\x003\x00one", digest_size=16).hexdigest()
    write(tmp_path, {"checkpoint-500/model.safetensors": "of a training that goes on"})
    assert create_embedder(f"{model}/{tmp_path}").weights == flat
    write(tmp_path, {file: "one"})
    before = create_embedder(f"{model}/{tmp_path}").weights
    write(tmp_path, {file: "two"})
    assert len({flat, before, create_embedder(f"{model}/{tmp_path}").weights}) == 3
