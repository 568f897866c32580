import asyncio
import sqlite3

import pytest

from reground.core.errors import ConfigurationError, ModelError
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage
from reground.models.gguf import GgufModel
from reground.models.hf import HfModel
from reground.models.options import ModelOptions, local_identity
from reground.models.scripted import ScriptedModel
from reground.models.wrappers import Cache, ClosableModel, Retry, wrap

ASK = (Message(role="system", content="s"), Message(role="user", content="q"))


class Gated:
    """A model that waits for a gate and numbers its calls."""

    name = "gated"

    def __init__(self):
        self.calls = 0
        self.gate = asyncio.Event()
        self.error = None

    async def generate(self, messages, sampling):
        self.calls += 1
        number = self.calls
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [Reply(text=f"reply {number}", usage=Usage(calls=1, prompt=5, completion=2, usd=0.1))]


async def turns():
    for _ in range(10):
        await asyncio.sleep(0)


async def test_a_call_is_paid_once_across_runs(tmp_path):
    scored = Reply(text="a", finish_reason="length", token_logprobs=(TokenLogprob(token="a", logprob=-0.5),))
    first = Cache(ScriptedModel([scored]), tmp_path / "c.db")
    (paid,) = await first.generate(ASK, Sampling(logprobs=True))
    (again,) = await first.generate(ASK, Sampling(logprobs=True))
    await first.aclose()
    other = Cache(ScriptedModel([]), tmp_path / "c.db")
    (later,) = await other.generate(ASK, Sampling(logprobs=True))
    await other.aclose()
    assert paid.usage.calls == 1
    assert again == later == scored.model_copy(update={"usage": Usage()})
    assert (later.usage.calls, later.usage.tokens, later.usage.usd) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("messages", "sampling"),
    [
        (ASK[1:], Sampling()),
        ((ASK[0], Message(role="assistant", content="q")), Sampling()),
        ((Message(role="system", content="sq"), Message(role="user", content="")), Sampling()),
        (ASK, Sampling(max_tokens=3)),
        (ASK, Sampling(stop=("x",))),
        (ASK, Sampling(n=2)),
    ],
)
async def test_calls_that_differ_are_told_apart(tmp_path, messages, sampling):
    model = ScriptedModel(["a", "b", "c"])
    cache = Cache(model, tmp_path / "c.db")
    await cache.generate(ASK, Sampling())
    await cache.generate(messages, sampling)
    assert len(model.calls) == 2
    await cache.aclose()


async def test_servers_are_told_apart(tmp_path):
    here = Cache(ScriptedModel(["here"], name="openai/m"), tmp_path / "c.db", identity="http://here m")
    there = Cache(ScriptedModel(["there"], name="openai/m"), tmp_path / "c.db", identity="http://there m")
    assert [(await each.generate(ASK, Sampling()))[0].text for each in (here, there)] == ["here", "there"]
    await here.aclose()
    await there.aclose()


async def test_sampled_calls_are_never_cached(tmp_path):
    cache = Cache(ScriptedModel(["a", "b"]), tmp_path / "c.db")
    texts = [(await cache.generate(ASK, Sampling(temperature=0.1)))[0].text for _ in range(2)]
    assert texts == ["a", "b"]
    await cache.aclose()


async def test_calls_alike_share_one_request(tmp_path):
    model = Gated()
    cache = Cache(model, tmp_path / "c.db")
    tasks = [asyncio.create_task(cache.generate(ASK, Sampling())) for _ in range(5)]
    await turns()
    model.gate.set()
    replies = await asyncio.gather(*tasks)
    assert model.calls == 1
    assert [reply.text for (reply,) in replies] == ["reply 1"] * 5
    assert sum(reply.usage.calls for (reply,) in replies) == 1
    await cache.aclose()


async def test_a_failure_is_shared_and_not_kept(tmp_path):
    model = Gated()
    model.error = ModelError("no")
    cache = Cache(model, tmp_path / "c.db")
    tasks = [asyncio.create_task(cache.generate(ASK, Sampling())) for _ in range(3)]
    await turns()
    model.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(each) for each in outcomes] == ["no"] * 3
    assert model.calls == 1
    model.error = None
    assert (await cache.generate(ASK, Sampling()))[0].text == "reply 2"
    await cache.aclose()


async def test_when_the_one_that_asks_is_cancelled_another_asks(tmp_path):
    model = Gated()
    cache = Cache(model, tmp_path / "c.db")
    tasks = [asyncio.create_task(cache.generate(ASK, Sampling())) for _ in range(3)]
    await turns()
    tasks[0].cancel()
    await turns()
    model.gate.set()
    replies = await asyncio.gather(*tasks[1:])
    assert [reply.text for (reply,) in replies] == ["reply 2"] * 2
    assert tasks[0].cancelled()
    await cache.aclose()


async def test_a_file_that_is_no_cache_is_refused(tmp_path):
    path = tmp_path / "c.db"
    path.write_bytes(b"this is no database, and long enough to be taken for one" * 50)
    with pytest.raises(ConfigurationError, match="cannot open the cache"):
        Cache(ScriptedModel([]), path)


async def test_a_damaged_entry_is_asked_for_again(tmp_path, caplog):
    path = tmp_path / "c.db"
    cache = Cache(ScriptedModel(["a", "b"]), path)
    await cache.generate(ASK, Sampling())
    with sqlite3.connect(path) as db:
        db.execute("UPDATE replies SET replies='[{\"text\": 3}]'")
    db.close()
    assert (await cache.generate(ASK, Sampling()))[0].text == "b"
    assert "cannot be read" in caplog.text
    await cache.aclose()


async def test_a_file_that_cannot_be_written_costs_only_the_saving(tmp_path, caplog):
    path = tmp_path / "c.db"
    cache = Cache(ScriptedModel(["a"]), path)
    with sqlite3.connect(path) as db:
        db.execute("CREATE TRIGGER full BEFORE INSERT ON replies BEGIN SELECT RAISE(ABORT, 'disk full'); END")
    db.close()
    assert (await cache.generate(ASK, Sampling()))[0].text == "a"
    assert "disk full" in caplog.text
    await cache.aclose()


async def test_the_stack_caches_only_where_a_file_is_named(tmp_path):
    model = ScriptedModel(["a"])
    plain, cached = wrap(model, ModelOptions()), wrap(model, ModelOptions(cache=tmp_path / "c.db"))
    assert isinstance(plain, Retry)
    assert isinstance(cached, Cache)
    assert isinstance(plain, ClosableModel)
    assert plain.name == cached.name == "scripted"
    await cached.aclose()


async def test_a_call_that_waits_to_be_tried_again_holds_no_slot():
    from reground.core.errors import TransientModelError

    model = wrap(
        ScriptedModel([TransientModelError("busy", retry_after=0.05), "other", "again"]), ModelOptions(connections=1)
    )
    done = []

    async def ask(name):
        done.append((name, (await model.generate(ASK, Sampling()))[0].text))

    await asyncio.gather(ask("failed first"), ask("came later"))
    assert done == [("came later", "other"), ("failed first", "again")]


@pytest.mark.parametrize("provider", ["gguf", "hf"])
def test_other_weights_or_another_adapter_are_another_model(provider, tmp_path):
    file = tmp_path / "model.gguf"
    name, adapters = f"{provider}/{file}", [tmp_path / "a.gguf", tmp_path / "b.gguf"]
    for adapter in adapters:
        adapter.write_bytes(adapter.name.encode())
    file.write_bytes(b"one")
    found = [local_identity(name, ModelOptions(adapter=adapter)) for adapter in (None, *adapters)]
    found.append(local_identity(name, ModelOptions(context=99)))
    file.write_bytes(b"two")
    found.append(local_identity(name, ModelOptions()))
    assert len(set(found)) == 5
    model = {"gguf": GgufModel, "hf": HfModel}[provider](str(file), ModelOptions())
    assert model.identity == found[-1]
