"""What both engines of this process keep: llama.cpp with the real small model, transformers with a random one."""

import asyncio
import re
import threading
from dataclasses import dataclass, replace
from typing import Any

import pytest

from reground.core.errors import ContextLengthExceeded
from reground.core.language import LanguageModel, Message, Reply
from reground.models.options import ModelOptions, Price
from tests.models import sampling, says, small_model
from tests.models.tiny import build


@dataclass
class Engine:
    """A model and what it is asked. own: makes another model of the same weights. lacks_room: what a refusal says."""

    model: Any
    question: list[Message]
    own: Any
    lacks_room: str


@pytest.fixture(scope="module", params=["gguf", "hf"])
def engine(request, tmp_path_factory):
    if request.param == "gguf":
        from reground.models.gguf import create

        path, options = small_model(), ModelOptions(slots=3, context=1024, threads=1)
        question = [Message(role="system", content="You are brief."), *says("Write about Paris.")]
        lacks_room = r"has \d{4} tokens .* room for 1024 in each of its 3 slots.*context"
    else:
        for extra in ("torch", "transformers"):
            pytest.importorskip(extra, reason="needs the extra [train]")
        from reground.models.hf import create

        path, options, question = build("llama", tmp_path_factory.mktemp("llama")), ModelOptions(threads=1), says("a b")
        lacks_room = "has 3005 tokens .* room for 128"

    def own(**more):
        return create(str(path), replace(options, **more))

    return Engine(own(), question, own, lacks_room)


async def test_it_is_a_language_model_that_answers_for_a_price_and_again_after_its_end(engine):
    model = engine.own(price=Price.parse("1000000,0,2000000"))
    assert isinstance(model, LanguageModel)
    assert model.name.startswith(("gguf//", "hf//"))
    (reply,) = await model.generate(engine.question, sampling())
    assert (reply.finish_reason, reply.token_logprobs) == ("length", None)
    assert (reply.usage.calls, reply.usage.completion) == (1, 8)
    assert reply.usage.usd == pytest.approx(reply.usage.prompt - reply.usage.cached + 2 * 8)
    await model.aclose()
    assert (await model.generate(engine.question, sampling()))[0].text == reply.text


async def test_a_prompt_that_does_not_fit_says_by_how_much_and_spares_its_neighbours(engine):
    prompts = (engine.question, says("a " * 3000))
    calls = (engine.model.generate(prompt, sampling()) for prompt in prompts)
    good, bad = await asyncio.gather(*calls, return_exceptions=True)
    assert isinstance(bad, ContextLengthExceeded)
    assert re.search(engine.lacks_room, str(bad))
    assert good[0].text


async def test_samples_differ_are_counted_and_a_seed_repeats_them(engine):
    async def draw(seed):  # more than llama.cpp has slots
        return await engine.model.generate(engine.question, sampling(n=4, temperature=2.0, seed=seed))

    first, again, other = await asyncio.gather(draw(1), draw(1), draw(2))
    assert [reply.text for reply in first] == [reply.text for reply in again]
    assert [reply.text for reply in first] != [reply.text for reply in other]
    assert len({reply.text for reply in first}) > 1
    assert 4 < first[0].usage.completion <= 32
    assert all(reply.usage.calls == 0 and reply.usage.tokens == 0 for reply in first[1:])


@pytest.mark.parametrize("logprobs", [False, True])
async def test_a_stop_string_ends_the_reply_and_the_work_and_is_not_in_it(engine, logprobs):
    (whole,) = await engine.model.generate(engine.question, sampling())
    stop = whole.text[6:9]
    (reply,) = await engine.model.generate(engine.question, sampling(stop=("never said", stop), logprobs=logprobs))
    assert reply.text == whole.text[: whole.text.index(stop)]
    assert reply.finish_reason == "stop"
    assert 0 < reply.usage.completion < 8
    if logprobs:
        assert "".join(entry.token for entry in reply.token_logprobs) == reply.text


async def test_cancelled_calls_return_at_once_and_the_next_is_served(engine):
    long = sampling(max_tokens=100, n=3)
    calls = [asyncio.create_task(engine.model.generate(engine.question, long)) for _ in range(8)]
    await asyncio.sleep(0)  # all have been handed over, and no answer can have come back yet
    for call in calls:
        call.cancel()
    ended = await asyncio.gather(*calls, return_exceptions=True)
    assert all(isinstance(end, asyncio.CancelledError) for end in ended)
    assert (await engine.model.generate(engine.question, sampling(max_tokens=2)))[0].text


class Busy:
    """Stands for what is loaded: with a large model, decoding and ending take as long as one batch."""

    def __init__(self, batch):
        self.begun, self.batch = threading.Event(), batch

    def decode(self, jobs):
        self.begun.set()
        assert self.batch.wait(60)
        return [[Reply(text="late")] for _ in jobs]

    def __del__(self):
        self.batch.wait(60)


@pytest.mark.parametrize("cancelled", [True, False])
async def test_only_a_cancelled_task_closes_without_waiting_for_what_the_model_does(engine, cancelled):
    model, batch = engine.own(), threading.Event()
    calls = []
    if hasattr(model, "_engine"):
        model._engine = Busy(batch)
    else:
        model._thread.loaded = busy = Busy(batch)
        calls.append(asyncio.create_task(model.generate(engine.question, sampling())))
        await asyncio.to_thread(busy.begun.wait, 60)

    async def hold():
        try:
            await asyncio.sleep(60 if cancelled else 0)
        finally:
            await model.aclose()

    closing = asyncio.create_task(hold())
    await asyncio.sleep(0.01)
    if cancelled:
        closing.cancel()
    done, _ = await asyncio.wait([closing], timeout=10 if cancelled else 0.2)
    batch.set()
    assert bool(done) is cancelled
    assert [reply.text for (reply,) in await asyncio.gather(*calls)] == ["late"] * len(calls)
    await asyncio.wait([closing])
