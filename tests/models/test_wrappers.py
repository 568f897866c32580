"""Limits, retries and the cache around a model."""

from __future__ import annotations

import asyncio
import contextlib
import sqlite3

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.budget import Budget
from reground.core.errors import AuthenticationError, ConfigurationError, ModelError, TransientModelError
from reground.core.http import Bucket
from reground.core.language import Message, Reply, Sampling, TokenLogprob, Usage
from reground.core.run import Run
from reground.models.gguf import GgufModel
from reground.models.hf import HfModel
from reground.models.options import ModelOptions, Price, local_identity
from reground.models.scripted import ScriptedModel
from reground.models.wrappers import Cache, Limit, Retry, wrap
from tests.models.clocks import Clock

ASK = (Message(role="user", content="q"),)


class Gated:
    """A model that waits for a gate and numbers its calls; counts who is inside."""

    name = "gated"

    def __init__(self):
        self.calls = self.inside = self.most = 0
        self.order = []
        self.gate = asyncio.Event()
        self.error = None

    async def generate(self, messages, sampling):
        self.calls += 1
        number = self.calls
        self.order.append(messages[-1].content)
        self.inside += 1
        self.most = max(self.most, self.inside)
        try:
            await self.gate.wait()
        finally:
            self.inside -= 1
        if self.error is not None:
            raise self.error
        return [Reply(text=f"reply {number}", usage=Usage(calls=1, prompt=5, completion=2, usd=0.1))]


def ask(limit, text):
    return limit.generate((Message(role="user", content=text),), Sampling())


async def turns(count=20):
    for _ in range(count):
        await asyncio.sleep(0)


async def test_no_more_at_once_than_connections_and_first_come_first_served():
    model = Gated()
    limit = Limit(model, connections=3)
    tasks = [asyncio.create_task(ask(limit, str(number))) for number in range(10)]
    await turns()
    assert model.inside == 3
    model.gate.set()
    replies = await asyncio.gather(*tasks)
    assert model.most == 3
    assert model.order == [str(number) for number in range(10)]
    assert [reply.text for (reply,) in replies] == [f"reply {number}" for number in range(1, 11)]


async def test_a_cancelled_call_gives_its_slot_back():
    model = Gated()
    limit = Limit(model, connections=1)
    first, second, third = (asyncio.create_task(ask(limit, text)) for text in "abc")
    await turns()
    first.cancel()
    second.cancel()
    await turns()
    assert model.order[-1] == "c"
    model.gate.set()
    assert (await third)[0].text == "reply 2"


async def test_requests_a_minute():
    clock = Clock()
    limit = Limit(ScriptedModel(lambda *_: "x"), requests_per_minute=30, clock=clock.now, sleep=clock.sleep)
    began = clock.time
    for _ in range(65):
        await ask(limit, "q")
    assert clock.time - began == pytest.approx(120)  # 5 at once, and 60 at one in two seconds


async def test_tokens_and_requests_are_corrected_by_usage():
    class Reporting:
        name = "m"

        async def generate(self, messages, sampling):
            return [Reply(text="x", usage=Usage(calls=3, prompt=10, completion=10))]

    clock = Clock()
    limit = Limit(Reporting(), tokens_per_minute=600, clock=clock.now, sleep=clock.sleep)
    began = clock.time
    for _ in range(100):
        await limit.generate(ASK, Sampling(max_tokens=90))  # estimated at 94, spends 20
    spent, elapsed = 100 * 20, clock.time - began
    assert spent - 100 <= elapsed * 10 <= spent + 100
    limit, began = Limit(Reporting(), requests_per_minute=60, clock=clock.now, sleep=clock.sleep), clock.time
    for _ in range(10):
        await ask(limit, "q")
    assert clock.time - began == pytest.approx(3 * 9 + 1 - 10)  # 28 requests before the last call, 10 of them at once


def test_one_limit_serves_event_loops_in_turn():
    limit = Limit(ScriptedModel(lambda *_: "x"), connections=1)

    async def crowd():
        return len(await asyncio.gather(*(ask(limit, "q") for _ in range(3))))

    assert [asyncio.run(crowd()) for _ in range(2)] == [3, 3]


@settings(max_examples=60)
@given(st.floats(1, 6000), st.lists(st.integers(1, 300), min_size=1, max_size=30))
def test_a_bucket_keeps_to_its_rate(rate, amounts):
    clock = Clock()

    async def take_all():
        bucket = Bucket(rate, clock=clock.now, sleep=clock.sleep)
        for amount in amounts:
            before = clock.time
            await bucket.take(amount)
            taken.append((before, clock.time, amount))

    taken = []
    began = clock.time
    asyncio.run(take_all())
    burst = max(1.0, rate / 6)
    spent = 0.0
    for _, at, amount in taken:
        # Debt aside, what was spent before a request was let in never exceeds what had flowed in.
        assert spent + min(amount, burst) <= burst + (at - began) * rate / 60 + 1e-6 * rate + 1e-6
        spent += amount


async def test_the_tokens_of_a_failed_attempt_are_free_for_the_next():
    clock = Clock()
    model = ScriptedModel([*[ModelError("503")] * 5, "fine"])
    limit = Limit(model, tokens_per_minute=6000, clock=clock.now, sleep=clock.sleep)
    for _ in range(5):
        with pytest.raises(ModelError):
            await limit.generate(ASK, Sampling(max_tokens=2000))
    await limit.generate(ASK, Sampling(max_tokens=2000))
    assert sum(clock.slept) == 0


def retrying(script, clock, **settings):
    settings.setdefault("uniform", lambda low, high: high)
    model = ScriptedModel(script)
    return model, Retry(model, clock=clock.now, sleep=clock.sleep, **settings)


@pytest.mark.parametrize(
    ("settings", "waits", "told"),
    [
        ({"cap": 5.0}, [2.0, 4.0, 5.0, 5.0, 5.0], r"^busy \(gave up after 6 attempts and 21 s\)$"),
        ({"attempts": 100, "deadline": 20.0}, [2.0, 4.0, 8.0], "gave up after 4 attempts"),  # the next would pass it
    ],
)
async def test_waits_double_up_to_the_cap_and_end_before_the_deadline(settings, waits, told):
    clock = Clock()
    model, retry = retrying(lambda *_: TransientModelError("busy"), clock, base=1.0, **settings)
    with pytest.raises(TransientModelError, match=told):
        await retry.generate(ASK, Sampling())
    assert clock.slept == waits
    assert len(model.calls) == len(waits) + 1


@given(st.floats(0, 200))
def test_retry_after_is_never_undercut(asked):
    clock = Clock()
    _, retry = retrying([TransientModelError("busy", retry_after=asked), "fine"], clock)
    asyncio.run(retry.generate(ASK, Sampling()))
    assert asked <= clock.slept[0] <= asked + 0.5


@pytest.mark.parametrize("error", [ModelError("no"), AuthenticationError("no"), ValueError("no")])
async def test_what_is_not_transient_is_not_tried_again(error):
    clock = Clock()
    model, retry = retrying([error, "fine"], clock)
    with pytest.raises(type(error)) as caught:
        await retry.generate(ASK, Sampling())
    assert caught.value is error
    assert len(model.calls) == 1


async def test_samples_that_arrived_are_kept_and_the_seed_moves_on():
    clock = Clock()
    partial = TransientModelError("cut")
    partial.paid = [Reply(text="a"), Reply(text="b")]
    model, retry = retrying([partial, "c"], clock)
    replies = await retry.generate(ASK, Sampling(n=3, seed=5, temperature=1))
    assert [reply.text for reply in replies] == ["a", "b", "c"]
    assert (model.calls[1][1].n, model.calls[1][1].seed) == (1, 7)


@pytest.mark.parametrize("last", [TransientModelError("busy"), ModelError("refused")])
async def test_what_arrived_is_told_when_the_rest_fails_for_good(last):
    partial = TransientModelError("cut")
    partial.paid = [Reply(text="a", usage=Usage(calls=1, prompt=9))]
    _, retry = retrying([partial, last], Clock(), attempts=2)
    run = Run(budget=Budget(tokens=500))
    with pytest.raises(ModelError):
        await run.generate(retry, "Why?", name="x", sampling=Sampling(n=3, temperature=1))
    assert (run.usage.calls, run.usage.prompt) == (1, 9)


CONVERSATION = (Message(role="system", content="s"), Message(role="user", content="q"))


@pytest.fixture
async def caching(tmp_path):
    """Makes caches around models, all with the same file, and closes them."""
    async with contextlib.AsyncExitStack() as stack:

        def make(model):
            cache = Cache(model, tmp_path / "c.db")
            stack.push_async_callback(cache.aclose)
            return cache

        yield make


async def alike(cache, count):
    """Equal calls at once that have all begun."""
    tasks = [asyncio.create_task(cache.generate(CONVERSATION, Sampling())) for _ in range(count)]
    await turns()
    return tasks


async def test_a_call_is_paid_once_across_runs(caching):
    scored = Reply(text="a", finish_reason="length", token_logprobs=(TokenLogprob(token="a", logprob=-0.5),))
    first = caching(ScriptedModel([scored]))
    (paid,) = await first.generate(CONVERSATION, Sampling(logprobs=True))
    (again,) = await first.generate(CONVERSATION, Sampling(logprobs=True))
    (later,) = await caching(ScriptedModel([])).generate(CONVERSATION, Sampling(logprobs=True))
    assert paid.usage.calls == 1
    assert again == later == scored.model_copy(update={"usage": Usage()})
    assert (later.usage.calls, later.usage.tokens, later.usage.usd) == (0, 0, 0.0)


@pytest.mark.parametrize(
    ("messages", "sampling"),
    [
        (CONVERSATION[1:], Sampling()),
        ((CONVERSATION[0], Message(role="assistant", content="q")), Sampling()),
        ((Message(role="system", content="sq"), Message(role="user", content="")), Sampling()),
        (CONVERSATION, Sampling(max_tokens=3)),
        (CONVERSATION, Sampling(stop=("x",))),
        (CONVERSATION, Sampling(n=2)),
        (CONVERSATION, Sampling(temperature=0.1)),  # sampled calls are never recorded
    ],
)
async def test_calls_that_differ_are_told_apart(caching, messages, sampling):
    model = ScriptedModel(["a", "b", "c", "d"])
    cache = caching(model)
    await cache.generate(CONVERSATION, Sampling())
    await cache.generate(messages, sampling)
    await cache.generate(messages, sampling)
    assert len(model.calls) == 2 + (sampling.temperature > 0)


async def test_calls_alike_share_one_request(caching):
    model = Gated()
    tasks = await alike(caching(model), 5)
    model.gate.set()
    replies = await asyncio.gather(*tasks)
    assert model.calls == 1
    assert [reply.text for (reply,) in replies] == ["reply 1"] * 5
    assert sum(reply.usage.calls for (reply,) in replies) == 1


async def test_a_failure_is_shared_and_not_kept(caching):
    model = Gated()
    model.error = ModelError("no")
    cache = caching(model)
    tasks = await alike(cache, 3)
    model.gate.set()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert [str(each) for each in outcomes] == ["no"] * 3
    assert model.calls == 1
    model.error = None
    assert (await cache.generate(CONVERSATION, Sampling()))[0].text == "reply 2"


async def test_when_the_one_that_asks_is_cancelled_another_asks(caching):
    model = Gated()
    tasks = await alike(caching(model), 3)
    tasks[0].cancel()
    await turns()
    model.gate.set()
    replies = await asyncio.gather(*tasks[1:])
    assert [reply.text for (reply,) in replies] == ["reply 2"] * 2
    assert tasks[0].cancelled()


def test_a_file_that_is_no_cache_is_refused(tmp_path):
    (tmp_path / "c.db").write_bytes(b"this is no database, and long enough to be taken for one" * 50)
    with pytest.raises(ConfigurationError, match="cannot open the cache"):
        Cache(ScriptedModel([]), tmp_path / "c.db")


DISK_FULL = "CREATE TRIGGER full BEFORE INSERT ON replies BEGIN SELECT RAISE(ABORT, 'disk full'); END"


@pytest.mark.parametrize(
    ("fault", "asked", "said"),
    [
        ("UPDATE replies SET replies='[{\"text\": 3}]'", ["a", "b", "b"], "cannot be read"),
        (f"DELETE FROM replies; {DISK_FULL}", ["a", "b", "c"], "disk full"),
    ],
)
async def test_a_damaged_entry_and_a_full_disk_cost_only_a_request(caching, tmp_path, caplog, fault, asked, said):
    cache = caching(ScriptedModel(["a", "b", "c"]))
    texts = []
    for number in range(3):
        texts.append((await cache.generate(CONVERSATION, Sampling()))[0].text)
        if number == 0:
            with contextlib.closing(sqlite3.connect(tmp_path / "c.db")) as db:
                db.executescript(fault)
    assert texts == asked
    assert said in caplog.text


async def test_a_call_that_waits_to_be_tried_again_holds_no_slot():
    model = wrap(
        ScriptedModel([TransientModelError("busy", retry_after=0.05), "other", "again"]), ModelOptions(connections=1)
    )
    done = []

    async def ask(name):
        done.append((name, (await model.generate(CONVERSATION, Sampling()))[0].text))

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


def test_a_price_of_two_numbers_charges_cached_tokens_in_full():
    assert Price.parse("0.15,0.60") == Price(0.15, 0.15, 0.60)


@pytest.mark.parametrize("text", ["", "1", "1,2,3,4", "a,b", "-1,2", "nan,1", "1,inf"])
def test_a_price_that_is_none(text):
    with pytest.raises(ConfigurationError, match="price"):
        Price.parse(text)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        *(("base_url", "localhost:8000"), ("api_key_env", ""), ("connections", 0), ("attempts", 0), ("timeout", 0)),
        *(("timeout", float("nan")), ("requests_per_minute", 0), ("requests_per_minute", 5e-324)),
        *(("tokens_per_minute", -5), ("context", 0), ("slots", 0), ("threads", -1), ("dtype", "int4")),
    ],
)
def test_a_setting_that_is_wrong_is_named(name, value):
    with pytest.raises(ConfigurationError, match=name):
        ModelOptions(**{name: value})
