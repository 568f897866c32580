"""What the tests of models through transformers share: shorthands, and what holds for every kind of model."""

import asyncio

import pytest

from reground.core.language import Message, Sampling


def says(*texts):
    return [Message(role="user", content=text) for text in texts]


def sampling(**given):
    return Sampling(**{"max_tokens": 8, **given})


async def answered_as_if_alone(model, prompts):
    """Calls at once get the replies, the usage and the log-probabilities that they get one by one."""
    alone = [(await model.generate(prompt, sampling(logprobs=True)))[0] for prompt in prompts]
    together = [
        reply for (reply,) in await asyncio.gather(*(model.generate(p, sampling(logprobs=True)) for p in prompts))
    ]
    for one, other in zip(alone, together, strict=True):
        assert one.text == other.text
        assert one.usage == other.usage
        assert [t.logprob for t in one.token_logprobs] == pytest.approx(
            [t.logprob for t in other.token_logprobs], abs=1e-4
        )
    assert len({reply.text for reply in alone}) > 1


async def samples_differ_and_a_seed_repeats_them(model):
    """Four samples, drawn twice with one seed and once with another; returns those of the first draw."""

    async def draw(seed):
        return await model.generate(says("a b"), sampling(n=4, temperature=2.0, seed=seed))

    first, again, other = await asyncio.gather(draw(1), draw(1), draw(2))
    assert [r.text for r in first] == [r.text for r in again]
    assert [r.text for r in first] != [r.text for r in other]
    assert len({r.text for r in first}) > 1
    return first
