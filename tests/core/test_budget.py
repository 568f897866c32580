import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.budget import Budget, Meter, estimate_tokens
from reground.core.errors import BudgetExceeded, ConfigurationError
from reground.core.language import Message, Reply, Sampling, Usage, as_messages
from reground.core.run import Run
from reground.models.options import Price
from reground.models.scripted import ScriptedModel

ASK = (Message(role="user", content="a" * 35),)  # 14 tokens by the estimate


class Clock:
    now = 50.0

    def __call__(self):
        return self.now


def refused(meter, *, limit, match, **call):
    with pytest.raises(BudgetExceeded, match=match) as caught:
        meter.admit(ASK, Sampling(), **call)
    assert caught.value.limit == limit


def test_a_completion_is_cut_to_the_room_that_is_left():
    meter = Meter(Budget(tokens=100))
    cut, reserved = meter.admit(ASK, Sampling(max_tokens=512))
    assert (cut.max_tokens, reserved.tokens) == (86, 100)
    meter.settle(reserved, Usage(calls=1, prompt=10, completion=20))
    assert meter.remaining_tokens() == 70
    cut, reserved = meter.admit(ASK, Sampling(max_tokens=20, n=2))
    assert (cut.max_tokens, reserved.tokens) == (20, 11 + 40)


@pytest.mark.parametrize(("prompt", "ratio"), [(14, 1.05), (7, 0.6), (12, 0.9), (18, 1.35), (60, 1.6)])
def test_what_calls_really_cost_corrects_the_estimates_that_follow(prompt, ratio):
    meter = Meter(Budget(tokens=10_000))
    assert meter.ratio == 1.0
    _, reserved = meter.admit(ASK, Sampling(max_tokens=16))
    assert (reserved.tokens, reserved.estimated) == (14 + 16, 14)
    meter.settle(reserved, Usage(calls=1, prompt=prompt, completion=10))
    assert meter.ratio == pytest.approx(ratio)
    assert meter.room() == int((10_000 - prompt - 10) / meter.ratio)
    _, reserved = meter.admit(ASK, Sampling(max_tokens=16))
    assert (reserved.tokens, reserved.estimated) == (math.ceil(14 * meter.ratio) + 16, 14)
    again = Meter(Budget(tokens=10_000))
    again.replay(Usage(calls=1, prompt=prompt, completion=10), 0.0, ASK)
    assert again.ratio == meter.ratio


def test_samples_drawn_in_several_requests_read_the_prompt_as_often():
    meter = Meter(Budget(tokens=10_000))
    _, reserved = meter.admit(ASK, Sampling(max_tokens=16, n=4))
    meter.settle(reserved, Usage(calls=4, prompt=4 * 14, completion=10))
    assert meter.ratio == pytest.approx(1.05)


def test_fewer_samples_are_drawn_before_one_is_cut_below_what_it_is_worth():
    meter = Meter(Budget(tokens=100))
    cut, reserved = meter.admit(ASK, Sampling(max_tokens=512, n=4), least=40)
    assert (cut.n, cut.max_tokens, reserved.tokens) == (2, 43, 14 + 86)
    refused(Meter(Budget(tokens=50)), limit="tokens", match="needs about 54", least=40)
    assert Meter(Budget(tokens=50)).admit(ASK, Sampling(max_tokens=8), least=40)[0].max_tokens == 8


def test_what_is_held_back_is_refused_to_others_and_given_back():
    meter, held = Meter(Budget(tokens=100, calls=2)), [30]
    with meter.holding(lambda: held[0]):
        assert meter.room() == 70
        held[0] = 60
        assert meter.admit(ASK, Sampling())[0].max_tokens == 26
        refused(meter, limit="calls", match="2 calls")
    assert meter.room() == 60


def test_a_call_that_would_not_fit_is_refused_before_it_is_made():
    meter = Meter(Budget(tokens=29))
    refused(meter, limit="tokens", match="29 of 29 tokens are left")
    assert meter.remaining_tokens() == 29
    assert Meter(Budget(tokens=30)).admit(ASK, Sampling())[0].max_tokens == 16
    assert Meter(Budget(tokens=15)).admit(ASK, Sampling(max_tokens=1))[0].max_tokens == 1


def test_time_carried_over_from_an_earlier_attempt_counts():
    clock = Clock()
    meter = Meter(Budget(seconds=10), clock=clock)
    meter.check_time()
    meter.carry(8.0)
    clock.now += 1
    assert meter.elapsed == pytest.approx(9)
    meter.carry(3.0)
    assert meter.elapsed == pytest.approx(9)
    clock.now += 1
    refused(meter, limit="seconds", match="10 s")


def test_dollars_end_and_need_a_price():
    meter = Meter(Budget(usd=0.5))
    _, reserved = meter.admit(ASK, Sampling())
    meter.settle(reserved, Usage(calls=1, usd=0.5))
    refused(meter, limit="usd", match=r"0\.5 USD")
    meter = Meter(Budget(usd=1))
    meter.settle(meter.admit(ASK, Sampling())[1], Usage(calls=1, usd=None))
    with pytest.raises(ConfigurationError, match="--price"):
        meter.admit(ASK, Sampling())


@given(
    st.integers(0, 3000),
    st.lists(st.tuples(st.integers(0, 400), st.integers(1, 500), st.integers(1, 4), st.floats(0, 1)), max_size=12),
)
def test_calls_at_once_never_overspend_together(tokens, calls):
    """As long as prompts are no longer than estimated, what is spent stays within the budget."""
    meter = Meter(Budget(tokens=tokens))
    open_calls = []
    for length, longest, samples, share in calls:
        messages = (Message(role="user", content="x" * length),)
        try:
            cut, reserved = meter.admit(messages, Sampling(max_tokens=longest, n=samples))
        except BudgetExceeded:
            continue
        assert cut.max_tokens <= longest
        spent = Usage(calls=1, prompt=estimate_tokens(messages), completion=int(cut.max_tokens * cut.n * share))
        open_calls.append((reserved, spent))
        if len(open_calls) == 3:
            meter.settle(*open_calls.pop(0))
    for reserved, spent in open_calls:
        meter.settle(reserved, spent)
    assert meter.usage.tokens <= tokens
    assert meter.remaining_tokens() == tokens - meter.usage.tokens


def test_the_tokens_that_are_written_have_a_limit_of_their_own():
    meter = Meter(Budget(completion=100))
    messages = as_messages("a long question " * 50)
    sampling, first = meter.admit(messages, Sampling(max_tokens=60))
    assert sampling.max_tokens == 60
    sampling, second = meter.admit(messages, Sampling(max_tokens=60, n=2))
    assert (sampling.n, sampling.max_tokens) == (2, 20), "what is reserved counts"
    meter.settle(first, Usage(calls=1, prompt=800, completion=10))
    meter.settle(second, None)
    assert meter.admit(messages, Sampling(max_tokens=500))[0].max_tokens == 90
    refused(meter, limit="completion", match="0 of 100 tokens are left to be written")
    meter = Meter(Budget(completion=1))
    sampling, reserved = meter.admit(ASK, Sampling(n=3))
    assert (sampling.n, sampling.max_tokens) == (1, 1), "the first reply is written however short it must be"
    meter.settle(reserved, Usage(calls=1, completion=1))
    refused(meter, limit="completion", match="0 of 1 ")


async def test_concurrent_calls_do_not_overspend_dollars_together():
    class Dear(ScriptedModel):
        price = Price(prompt=10.0, cached=10.0, completion=30.0)

        async def generate(self, messages, sampling, /):
            await asyncio.sleep(0)
            usage = Usage(calls=1, prompt=100, completion=400, usd=self.price.usd(100, 0, 400))
            return [Reply(text="so", usage=usage)]

    run = Run(budget=Budget(usd=0.03))
    calls = (run.span("x").generate(Dear([]), "why?", name="x", sampling=Sampling(max_tokens=400)) for _ in range(30))
    results = await asyncio.gather(*calls, return_exceptions=True)
    assert any(isinstance(result, BudgetExceeded) for result in results)
    assert 0 < run.usage.usd <= 0.03 + 0.013


@pytest.mark.parametrize(("tokens", "cut"), [(10_000, False), (40, True)])
async def test_a_reply_that_ends_at_the_wanted_length_is_not_cut_by_the_budget(tokens, cut):
    # as from a cache, or a context that ended
    model = ScriptedModel(lambda messages, sampling: Reply(text="a b c", finish_reason="length", usage=Usage()))
    run = Run(budget=Budget(tokens=tokens))
    await run.generate(model, "why?", name="x", sampling=Sampling(max_tokens=64))
    assert run.meter.has_cut("a b c") is cut
