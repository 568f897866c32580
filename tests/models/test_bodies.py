"""What a server may send: no more than the call can need, packed or not, and not ever more slowly."""

import contextlib
import gzip
import resource
import time
import tracemalloc

import aiohttp
import pytest

from reground.core.errors import ModelError, TransientModelError
from reground.core.http import LARGE, BadBody, read_body, read_json
from reground.core.language import Message, Sampling
from reground.models.openai import create
from reground.models.options import ModelOptions
from reground.models.wrappers import wrap
from reground.testing.openai_server import MockOpenAI

ASK = (Message(role="user", content="hello"),)


@contextlib.asynccontextmanager
async def adapter():
    async with MockOpenAI() as mock:
        options = ModelOptions(base_url=mock.url)
        model = wrap(create("mock", options), options)
        try:
            yield mock, model
        finally:
            await model.aclose()


def peak_mib():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


@pytest.mark.parametrize("fault", ["flood:400", "bomb:400"])
async def test_a_flood_is_refused_at_once_and_is_not_kept_in_memory(fault):
    async with adapter() as (mock, model):
        before = peak_mib()
        mock.misbehave(fault)
        with pytest.raises(ModelError, match="sent more than the 2 MiB that a reply to this call may take") as refused:
            await model.generate(ASK, Sampling())
        assert peak_mib() - before < 100
        assert not isinstance(refused.value, TransientModelError)
        assert len(mock.received) == 1
        (reply,) = await model.generate(ASK, Sampling())
    assert reply.text == "hello"


async def test_a_packed_reply_is_unpacked():
    async with adapter() as (mock, model):
        mock.misbehave("bomb:1")
        (reply,) = await model.generate(ASK, Sampling())
    assert reply.text == "x" * (1 << 20)


async def test_a_reply_that_stops_in_the_middle_is_waited_for_no_longer_than_so():
    async with MockOpenAI() as mock, aiohttp.ClientSession(auto_decompress=False) as session:
        mock.misbehave("halt:60")
        body = {"model": "mock", "messages": [{"role": "user", "content": "hello"}]}
        began = time.monotonic()
        async with session.post(f"{mock.url}/chat/completions", json=body) as response:
            with pytest.raises(BadBody, match=r"sent nothing for 0\.2 s") as stopped:
                await read_body(response, LARGE, idle=0.2)
    assert stopped.value.passing
    assert time.monotonic() - began < 30


class Pieces:
    """A reply that comes in these pieces."""

    def __init__(self, *pieces):
        self.headers = {"Content-Encoding": "gzip"}
        self.content, self.pieces, self.closed = self, list(pieces), False

    def is_eof(self):
        return True

    async def readany(self):
        return self.pieces.pop(0) if self.pieces else b""

    def close(self):
        self.closed = True


ONE, TWO = (gzip.compress(text, mtime=0) for text in (b"one", b"two"))


@pytest.mark.parametrize("more", [[TWO], [bytes(512)], [b"!", b"!"]], ids=["member", "padding", "garbage"])
async def test_what_follows_the_end_of_a_packed_reply_is_passed_over(more):
    assert await read_body(Pieces(ONE, *more), LARGE) == b"one"
    assert await read_body(Pieces(ONE + b"".join(more)), LARGE) == b"one"


# The last block of no bytes is a packed nothing, of which there may be any number.
@pytest.mark.parametrize("begin", [ONE, ONE[:10]], ids=["after the end", "before it"])
async def test_pieces_that_unpack_to_nothing_count_as_well(begin):
    reply = Pieces(begin, *[b"\0\0\0\xff\xff" * 100_000] * 8)
    tracemalloc.start()
    with pytest.raises(BadBody, match="sent more than the 1 MiB"):
        await read_body(reply, LARGE)
    assert tracemalloc.get_traced_memory()[1] < 2 * LARGE
    tracemalloc.stop()
    assert reply.closed


@pytest.mark.parametrize("body", [b"[" * 3_000_000, b"[" * 5_000, b"{" + b" " * 3_000_000, b"\xff{"])
def test_what_is_no_json_is_a_value_error(body):
    with pytest.raises(ValueError, match=r"nested|Expect|expected|EOF|recursion"):
        read_json(body)
