"""Run: the only way for a method to reach the world, the port of methods, and one question from start to end.

A run records, replays and keeps to the budget.

The life of an effect: it gets the next ordinal of its span; its recorded result is taken if the fingerprint of the
request is the same; else it is made within the budget and written to the journal; and then it is a step of the
trajectory. `Run.retrieve` is the plainest. A call of a model may besides be cut or refused by a budget, which is
recorded too, and be asked once more with room for a thought.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import traceback
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import partial
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, TypeVar, cast, runtime_checkable

from pydantic import Field, JsonValue, TypeAdapter, ValidationError

from reground.core import reasoning, trajectory
from reground.core.answers import Answer, AnswerForm
from reground.core.budget import Budget, Meter
from reground.core.errors import (
    BudgetExceeded,
    CapabilityError,
    ConfigurationError,
    ContextLengthExceeded,
    ModelError,
    ParseError,
    RegroundError,
    TransientModelError,
)
from reground.core.evidence import Passage, Retriever, Skipped
from reground.core.journal import Effect, Journal, MemoryJournal, fingerprint
from reground.core.language import (
    LEAST_REPLY,
    Hearing,
    LanguageModel,
    Message,
    Prompt,
    Reply,
    Sampling,
    Usage,
    as_messages,
    estimate_tokens,
    finite,
    hearing,
    replies_of,
    storable_text,
    tokens_of,
)
from reground.core.programs import Execution, Program, Sandbox
from reground.core.trajectory import (
    UNGROUNDED,
    VERSION,
    Candidate,
    Failure,
    NoteStep,
    Pair,
    RetrieveStep,
    Step,
    Trajectory,
)
from reground.core.untrusted import neutralise, unfence
from reground.core.user_code import awaited, origin


@runtime_checkable
class Critic(Protocol):
    """Anything that estimates expected reward (CR-Planner, section 2.3): a prompted model, a trained one, chance.

    Scores compare candidates of one context; they need no common scale across contexts. Methods ask through
    `Run.score`, which records the answer.
    """

    @property
    def name(self) -> str:
        """The critic and its version: part of the identity of a run and of a recorded score."""

    async def score(self, pairs: Sequence[Pair], run: Run, /) -> Sequence[float]:
        """One score per pair, higher is better. Model calls go through `run`."""


@runtime_checkable
class AskingCritic(Critic, Protocol):
    """A critic whose scores cost calls of its model, which a budget has to cover."""

    @property
    def model(self) -> LanguageModel:
        """The model that judges."""


T = TypeVar("T")
_log = logging.getLogger(__name__)

_REPLIES = TypeAdapter(Annotated[tuple[Reply, ...], Field(min_length=1)])
_RESULTS = TypeAdapter(tuple[Passage | Skipped, ...])
_EXECUTION = TypeAdapter(Execution)
_SCORES = TypeAdapter(tuple[float, ...])
_REFUSAL = TypeAdapter(tuple[str, str])  # how a refusal is written: the limit, and why

_REFUSING = frozenset({"tokens", "calls"})  # the limits that refuse one call and may still admit a smaller one
_COUNTING = _REFUSING | {"completion", "usd"}
"""The limits that count the calls in flight with what they cost at most, so that timing decides whom they refuse."""
_PLAIN: dict[str, object] = {"logprobs": False, "grammar": None}
"""The parts of a sampling that may be only welcome, as they are left out."""


@dataclass(frozen=True)
class Event:
    """The begin of an effect, the end of a step, or in between what a model does, for listeners.

    read: tokens of the prompt that it has read, and of how many. text, thought: of its reply, all that is written.
    sources: the passages that the text may cite by their numbers, if it is the answer; None if it is a step.
    """

    type: Literal["begin", "reading", "writing", "end"]
    span: str
    name: str
    usage: Usage
    step: Step | None = None
    read: tuple[int, int] = (0, 0)
    text: str = ""
    thought: str = ""
    sources: Sequence[Passage] | None = None


Observer = Callable[[Event], None]


class Listener(partial[None]):
    """An observer that is told, too, what models read and write while they do. For others no reply is streamed."""


@dataclass
class _Question:
    """What all spans of one question share.

    hidden: the ids of documents that it must not find. lacking: models, and what optional wish each has refused.
    rooms: the most tokens that a reasoning model's call had for its thought, by the model's name.
    """

    run_id: str
    id: str
    journal: Journal
    recorded: dict[tuple[str, int], Effect]
    meter: Meter
    observer: Observer | None
    seed: int | None
    hidden: frozenset[str]
    steps: list[Step] = field(default_factory=list)
    best: Answer | None = None
    whole: Answer | None = None
    lacking: set[tuple[str, str]] = field(default_factory=set)
    rooms: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class _Call:
    """A call of a model, as a method makes it.

    least: the fewest useful tokens of a reply. welcome: what of the sampling the model may refuse. room: tokens beyond
    the sampling's limit, for a thought. sources: as in `Event`.
    """

    model: LanguageModel
    messages: tuple[Message, ...]
    sampling: Sampling
    name: str
    least: int
    welcome: frozenset[str]
    room: int
    sources: Sequence[Passage] | None


def _cost(model: LanguageModel, usage: Usage) -> Usage:
    """What was used. If its price was unknown when the call was made, the model's present price applies."""
    price = getattr(model, "price", None)
    if usage.usd is not None or price is None:
        return usage
    return usage.model_copy(update={"usd": price.usd(usage.prompt, usage.cached, usage.completion)})


def _usage_of(replies: Sequence[Reply]) -> Usage:
    return sum((reply.usage for reply in replies), Usage())


class Run:
    """One question's run, or a span of it.

    A span is a child run with its own ordinals. Each concurrent branch takes one, opened in a fixed order, so that
    replay finds the same keys.

    seed: base seed. Each sampled call without its own seed derives one from this and its position, so a resumed run
    draws the same samples. None leaves seeds to the model.
    """

    answer_from: Sequence[Passage] | None = None
    """What a method sets before the call whose text is the answer: the passages that it may cite by their numbers."""

    def __init__(
        self,
        *,
        run_id: str = "run",
        question_id: str = "question",
        journal: Journal | None = None,
        budget: Budget | None = None,
        observer: Observer | None = None,
        seed: int | None = None,
        hidden: frozenset[str] = frozenset(),
    ) -> None:
        journal = journal if journal is not None else MemoryJournal()
        recorded = journal.load(run_id, question_id)
        meter = Meter(budget if budget is not None else Budget())
        self._question = _Question(run_id, question_id, journal, recorded, meter, observer, seed, hidden)
        self._path = ""
        self._ordinal = 0
        self._children: dict[str, int] = {}

    def span(self, name: str, **data: JsonValue) -> Run:
        """A child run for one branch, for use in a with statement; `data` is recorded with it."""
        name = storable_text(name)
        count = self._children.get(name, 0)
        self._children[name] = count + 1
        child = object.__new__(type(self))
        child._question, child._path = self._question, f"{self._path}/{name}.{count}"
        child._ordinal, child._children = 0, {}
        if data:
            child.note("span", **data)
        return child

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: a span only names its effects."""

    @property
    def meter(self) -> Meter:
        """The question's meter."""
        return self._question.meter

    @property
    def usage(self) -> Usage:
        """The cost of the whole question so far, including replayed calls."""
        return self.meter.usage

    @property
    def steps(self) -> tuple[Step, ...]:
        """Every step of the question so far, in the order in which they ended."""
        return tuple(self._question.steps)

    @property
    def within(self) -> tuple[Step, ...]:
        """The steps of this span, and of the spans inside it, so far."""
        inside = f"{self._path}/"
        return tuple(step for step in self._question.steps if f"{step.span}/".startswith(inside))

    @property
    def best(self) -> Answer | None:
        """The answer proposed last."""
        return self._question.best

    @property
    def whole(self) -> Answer | None:
        """The answer proposed last that the token budget has not cut."""
        return self._question.whole

    def propose(self, answer: Answer) -> Answer:
        """Keep `answer` as the best so far: it is the result if the budget ends. Returns it."""
        self._question.best = answer
        if not self.meter.has_cut(answer.text):
            self._question.whole = answer
        return answer

    def note(self, name: str, **data: JsonValue) -> None:
        """Record a note, which is not an effect."""
        self._record(trajectory.NoteStep, self._ordinal, name, {"data": data})

    def choose(
        self, name: str, *, by: str, context: str, candidates: Sequence[Candidate], chosen: int | None, why: str = ""
    ) -> None:
        """Record the method's choice between candidates, with its context."""
        parts = {"by": by, "context": context, "candidates": tuple(candidates), "chosen": chosen, "why": why}
        self._record(trajectory.ChooseStep, self._ordinal, name, parts)

    def optional(self) -> AbstractContextManager[None, bool]:
        """A block that ends early, with a note, if a limit of tokens or calls refuses a call in it."""
        return cast("AbstractContextManager[None, bool]", self._ending_early(nullcontext()))

    def keeping(self, prompt: Callable[[], Prompt] | None, *, reply: int) -> AbstractContextManager[None, bool]:
        """A block that keeps enough of the budget for the call after it.

        If a call inside needs that, the block ends early, with a note.

        prompt: the later call's prompt as it would be now; None keeps nothing, and no limit ends the block.
        reply: tokens of the later call's reply, without its thought.
        """
        if prompt is None:
            return cast("AbstractContextManager[None, bool]", nullcontext())
        rooms = self._question.rooms
        hold = self.meter.holding(lambda: tokens_of(prompt()) + reply + max(rooms.values(), default=0))
        return cast("AbstractContextManager[None, bool]", self._ending_early(hold))

    @contextmanager
    def _ending_early(self, hold: AbstractContextManager[None]) -> Iterator[None]:
        """The block. A type checker does not see that it may swallow an error, so its users say so by a cast."""
        try:
            with hold:
                yield
        except BudgetExceeded as error:
            if error.limit not in _REFUSING:
                raise
            self.note("ended early", why=str(error))

    def room(self) -> int | None:
        """The estimated tokens that a prompt and its reply may still take together; None without a limit."""
        return self.meter.room()

    async def generate(
        self,
        model: LanguageModel,
        prompt: Prompt,
        /,
        *,
        name: str,
        sampling: Sampling | None = None,
        logprobs: Literal["needed", "welcome"] = "needed",
        grammar: Literal["needed", "welcome"] = "needed",
        least: int = LEAST_REPLY,
    ) -> list[Reply]:
        """Call a model. Raises BudgetExceeded before spending or when time runs out, ModelError if there is no reply.

        logprobs: "needed" raises CapabilityError if the sampling asks for log-probabilities and the model has none;
        "welcome" goes on without them. grammar: the same for a grammar.
        least: minimum useful tokens of a reply. If a limit leaves less, fewer samples are drawn or the call is refused.
        """
        request = sampling if sampling is not None else Sampling()
        messages = tuple(Message(role=each.role, content=neutralise(each.content)) for each in as_messages(prompt))
        texts = [text for each in messages for text in (each.role, each.content)]
        mark = fingerprint("generate", model.name, request.model_dump_json(), *texts)
        ordinal, seed = self._next(), self._question.seed
        seeded = request
        if seed is not None and request.seed is None and request.temperature > 0:
            # from its position, which timing cannot change
            place = fingerprint("seed", str(seed), self._question.id, self._path, str(ordinal))
            seeded = request.model_copy(update={"seed": int(place[:8], 16) % 2**31})
        welcome = frozenset(wish for wish, need in (("logprobs", logprobs), ("grammar", grammar)) if need == "welcome")
        call = _Call(model, messages, seeded, name, least, welcome, reasoning.room_of(model), self.answer_from)
        self.answer_from = None
        replies = await self._replies(call, ordinal, mark)
        if replies and all(reasoning.lacks_room(reply, request) for reply in replies):
            replies = await self._with_room(call, mark, replies)
        usable = [reply for reply in replies if not reasoning.is_all_thought(reply)] or list(replies)
        result = usable[: request.n]  # a server or a damaged record may have more
        if request.logprobs and logprobs == "needed" and any(reply.token_logprobs is None for reply in result):
            raise CapabilityError(
                f"{model.name} gave no log-probabilities, which this method needs; choose a model or a server that does"
            )
        return result

    async def _replies(self, call: _Call, ordinal: int, mark: str) -> tuple[Reply, ...]:
        """The replies to a call, as they were recorded, or made and recorded now.

        What a budget shortened or refused is recorded under a fingerprint with the limits, so that another budget asks
        again.
        """
        meter, limits, usd = self.meter, self.meter.limits, self.meter.budget.usd
        cut_mark = refused = ""
        if limits is not None or usd is not None:
            cut_mark = fingerprint("cut", mark, str(limits))  # a limit in US dollars cuts no reply
            refused = fingerprint("refused", mark, str(limits), *([] if usd is None else [str(usd)]))
        recorded = self._replay(ordinal, mark, _REPLIES, call.name)
        is_cut = recorded is None and (recorded := self._replay(ordinal, cut_mark, _REPLIES, call.name)) is not None
        if recorded is not None:
            replies, elapsed = recorded
            meter.replay(_cost(call.model, _usage_of(replies)), elapsed, call.messages)
        elif refusal := self._replay(ordinal, refused, _REFUSAL, call.name):
            # The calls beside it have ended, and there may be room that there was not.
            raise BudgetExceeded(*refusal[0])
        else:
            replies, is_cut = await self._attempt(call, ordinal, refused)
            await self._write(ordinal, cut_mark if is_cut else mark, _REPLIES, replies)
        replies = unfence(replies, call.messages)  # the journal keeps the originals
        parts = {"model": call.model.name, "messages": call.messages, "sampling": call.sampling, "replies": replies}
        self._record(trajectory.GenerateStep, ordinal, call.name, parts, replayed=recorded is not None)
        if is_cut:
            meter.see(replies)
        reasoning.learn(call.model, replies)
        if room := max((reply.room for reply in replies), default=0):
            rooms, limit = self._question.rooms, call.sampling.max_tokens
            if call.model.name not in rooms:
                self.note("thought needs room", model=call.model.name, **{"from": limit, "to": limit + room})
            rooms[call.model.name] = max(room, rooms.get(call.model.name, 0))
        return replies

    async def _attempt(self, call: _Call, ordinal: int, refused: str) -> tuple[tuple[Reply, ...], bool]:
        """Make the call, and tell whether the budget cut it. What is welcome and refused is left out, now and later.

        refused: the fingerprint of a refusal by this budget.
        """
        lacking = self._question.lacking
        while True:
            absent = {wish for wish in call.welcome if (call.model.name, wish) in lacking}
            sampling = call.sampling.model_copy(update={wish: _PLAIN[wish] for wish in absent})
            try:
                return await self._pay(call, sampling)
            except CapabilityError as error:
                if error.lacks not in call.welcome - absent:
                    raise
                lacking.add((call.model.name, error.lacks))
            except ContextLengthExceeded:
                if not call.room:
                    raise
                call = replace(call, room=call.room // 2 if call.room >= 2 * reasoning.LEAST else 0)
            except BudgetExceeded as error:
                if refused and error.limit in _COUNTING:
                    await self._write(ordinal, refused, _REFUSAL, (error.limit, str(error)))
                raise

    async def _pay(self, call: _Call, request: Sampling) -> tuple[tuple[Reply, ...], bool]:
        """Make the call within the budget, and tell whether the budget cut it: whether it wrote less than it would."""
        meter, model, limit = self.meter, call.model, request.max_tokens
        if call.room:
            request = request.model_copy(update={"max_tokens": limit + call.room})
        sampling, reserved = meter.admit(call.messages, request, least=call.least, model=model)
        self._begin(call.name)
        heard = hearing.set(self._hearing(call))
        usage: Usage | None = None
        try:
            replies = tuple(map(reasoning.separate, await meter.within(replies_of(model, call.messages, sampling))))
            usage = _usage_of(replies)
        except BudgetExceeded:  # a call that the time budget cancelled: the server may charge its prompt
            usage = _cost(model, Usage(calls=1, prompt=estimate_tokens(call.messages), usd=None))
            usage = usage if usage.usd is not None else usage.model_copy(update={"usd": 0.0})
            raise
        except ModelError as error:
            usage = _usage_of(error.paid) if error.paid else None
            raise
        finally:
            hearing.reset(heard)
            meter.settle(reserved, usage)
        room = max(0, sampling.max_tokens - limit)
        if room:
            replies = tuple(reply.model_copy(update={"room": room}) for reply in replies)
        is_shorter = sampling.max_tokens < request.max_tokens and any(r.finish_reason == "length" for r in replies)
        return replies, sampling.n < request.n or is_shorter

    def _hearing(self, call: _Call) -> Hearing | None:
        """Tells the listener what the model does in a call; None without one, and where several replies are written."""
        listener, size = self._question.observer, 0
        if not isinstance(listener, Listener) or call.sampling.n > 1:
            return None
        loop, thread = asyncio.get_running_loop(), threading.get_ident()

        def tell(news: Reply | tuple[int, int]) -> None:
            nonlocal size
            event = Event("reading", self._path, call.name, self.usage)
            if not isinstance(news, Reply):
                return listener(replace(event, read=news))
            now = len(news.text) + len(news.reasoning or "")
            if size <= now <= size + size // 256:  # so that long replies take linear time; a shorter one begins again
                return
            size = now
            (reply,) = unfence([reasoning.so_far(news, thinks=call.room > 0)], call.messages)
            thought = reply.reasoning or ""
            listener(replace(event, type="writing", text=reply.text, thought=thought, sources=call.sources))

        def hear(news: Reply | tuple[int, int]) -> None:
            if threading.get_ident() == thread:
                return tell(news)
            with suppress(RuntimeError):  # the loop has ended, and the call with it
                loop.call_soon_threadsafe(tell, news)

        return hear

    async def _with_room(self, call: _Call, mark: str, replies: tuple[Reply, ...]) -> tuple[Reply, ...]:
        """Ask once more for what a thought has left no room for. Where that is impossible, the first replies stand."""
        limit, before = call.sampling.max_tokens, replies[0].room
        room = min(reasoning.MOST, max(reasoning.FIRST, reasoning.TIMES * limit, 4 * before))
        if room <= before:
            return replies
        stop = call.sampling.stop if all(reply.finish_reason == "stop" for reply in replies) else ()
        if stop:  # one ended the thought; they are applied here, to the text alone
            call = replace(call, sampling=call.sampling.model_copy(update={"stop": ()}))
        with self.span("room") as span:
            try:
                again = replace(call, room=room, least=2 * (limit + before))
                # the only effect in its span
                replies = await span._replies(again, 0, mark)  # noqa: SLF001
            except BudgetExceeded as error:
                if error.limit not in _COUNTING:
                    raise
            except TransientModelError:
                raise
            except ModelError as error:
                self.note("no room for a thought", why=str(error))
        return tuple(reasoning.ended_at(reply, stop) for reply in replies)

    async def ask(
        self,
        model: LanguageModel,
        prompt: Prompt,
        /,
        *,
        name: str,
        sampling: Sampling | None = None,
        grammar: Literal["needed", "welcome"] = "needed",
        least: int = LEAST_REPLY,
    ) -> str:
        """Call a model for one reply and return its text."""
        return (await self.generate(model, prompt, name=name, sampling=sampling, grammar=grammar, least=least))[0].text

    async def parse(
        self,
        model: LanguageModel,
        prompt: Prompt,
        parser: Callable[[str], T],
        /,
        *,
        name: str,
        attempts: int = 2,
        sampling: Sampling | None = None,
        grammar: Literal["needed", "welcome"] = "needed",
    ) -> T:
        """Call a model and parse its reply. On a ParseError, send its message back; at most `attempts` calls."""
        messages = list(as_messages(prompt))
        for attempt in range(1, attempts + 1):
            text = await self.ask(model, messages, name=name, sampling=sampling, grammar=grammar)
            try:
                return parser(text)
            except ParseError as complaint:
                self.note("parse error", of=name, attempt=attempt, complaint=str(complaint))
                if attempt == attempts:
                    raise
                again = f"That could not be used: {complaint} Answer again in the form asked for."
                messages += [Message(role="assistant", content=text), Message(role="user", content=again)]
        raise AssertionError("attempts must be at least 1")

    async def retrieve(self, retriever: Retriever, query: str, /, *, k: int, name: str = "retrieve") -> list[Passage]:
        """Retrieve at most `k` passages of documents that are not hidden, with control tokens in their text broken."""
        query, hidden = storable_text(query), self._question.hidden
        mark = fingerprint("retrieve", retriever.name, str(k), query, *sorted(hidden))

        async def search() -> tuple[Passage | Skipped, ...]:
            depth = k
            while True:
                results = await awaited(retriever.retrieve, query, k=depth)
                visible = [p for p in results if p.id not in hidden and p.page_id not in hidden]
                if len(visible) >= k or len(results) < depth or len(visible) == len(results):
                    break
                depth *= 2  # deeper, for passages in place of hidden ones
            safe = [{"text": neutralise(p.text), "title": neutralise(p.title)} for p in visible[:k]]
            plain = (p.model_copy(update=texts) for p, texts in zip(visible, safe, strict=False))
            return (*plain, *getattr(results, "skipped", ()))

        def parts(results: tuple[Passage | Skipped, ...]) -> dict[str, object]:
            passages = tuple(each for each in results if isinstance(each, Passage))
            skipped = tuple(each for each in results if isinstance(each, Skipped))
            return {"retriever": retriever.name, "query": query, "k": k, "passages": passages, "skipped": skipped}

        results = await self._effect(trajectory.RetrieveStep, name, mark, _RESULTS, search, parts)
        return [each for each in results if isinstance(each, Passage)]

    async def execute(self, sandbox: Sandbox, program: Program, /, *, name: str = "execute") -> Execution:
        """Run a generated program in isolation."""
        mark = fingerprint("execute", sandbox.name, program.model_dump_json())

        def parts(execution: Execution) -> dict[str, object]:
            return {"sandbox": sandbox.name, "program": program, "execution": execution}

        kind = trajectory.ExecuteStep
        return await self._effect(kind, name, mark, _EXECUTION, lambda: sandbox.execute(program), parts)

    async def score(self, critic: Critic, pairs: Sequence[Pair], /, *, name: str = "score") -> list[float]:
        """Let a critic score candidates. Raises ModelError unless it gives one score per pair.

        Scores are recorded, because another machine or build may compute different ones. If the critic calls a model
        through this run, its calls are recorded instead.
        """
        mark = fingerprint("score", critic.name, *(text for pair in pairs for text in (pair.context, pair.candidate)))

        async def judge() -> tuple[float, ...]:
            scores = tuple(finite(float(score)) for score in await critic.score(pairs, self))
            if len(scores) != len(pairs):
                raise ModelError(f"the critic {critic.name} gave {len(scores)} scores for {len(pairs)} candidates")
            return scores

        def parts(scores: tuple[float, ...]) -> dict[str, object]:
            return {"critic": critic.name, "pairs": tuple(pairs), "scores": scores}

        own = (self._ordinal + 1, dict(self._children))
        kind, is_own = trajectory.ScoreStep, lambda: own == (self._ordinal, self._children)
        scores = await self._effect(kind, name, mark, _SCORES, judge, parts, is_own=is_own)
        return list(scores)

    async def _effect(
        self,
        kind: Callable[..., Step],
        name: str,
        mark: str,
        adapter: TypeAdapter[T],
        effect: Callable[[], Awaitable[T]],
        parts: Callable[[T], dict[str, object]],
        *,
        is_own: Callable[[], bool] = lambda: True,
    ) -> T:
        """An effect without tokens: replayed, or made within the time and written.

        mark: the request's fingerprint. parts: of the step, from the result. is_own: whether the effect has made
        no others in this span, which would be the record in its place.
        """
        ordinal = self._next()
        recorded = self._replay(ordinal, mark, adapter, name)
        if recorded is not None:
            result, elapsed = recorded
            self.meter.carry(elapsed)
        else:
            self.meter.check_time()
            self._begin(name)
            result = await self.meter.within(effect())
            if is_own():
                await self._write(ordinal, mark, adapter, result)
        if is_own():
            self._record(kind, ordinal, name, parts(result), replayed=recorded is not None)
        return result

    def _next(self) -> int:
        ordinal = self._ordinal
        self._ordinal += 1
        return ordinal

    def _replay(self, ordinal: int, mark: str, adapter: TypeAdapter[T], name: str) -> tuple[T, float] | None:
        """The recorded result of this request and when it ended; None if nothing readable is recorded."""
        effect = self._question.recorded.get((self._path, ordinal))
        if effect is None or effect.fingerprint != mark:
            return None
        try:
            return adapter.validate_json(effect.result), effect.elapsed
        except ValidationError as error:
            why = f"{effect.where or 'the journal'}: {error.errors()[0]['msg']}"
            _log.warning("a recorded effect (%s) cannot be read, so the call is made again: %s", name, why)
            self.note("record set aside", of=name, why=why)
            return None

    async def _write(self, ordinal: int, mark: str, adapter: TypeAdapter[T], result: T) -> None:
        question = self._question
        effect = Effect(self._path, ordinal, mark, adapter.dump_json(result).decode(), self.meter.elapsed)
        await question.journal.append(question.run_id, question.id, effect)

    def _begin(self, name: str) -> None:
        if self._question.observer is not None:
            self._question.observer(Event("begin", self._path, name, self.usage))

    def _record(
        self, kind: Callable[..., Step], ordinal: int, name: str, parts: Mapping[str, object], *, replayed: bool = False
    ) -> None:
        place = {"span": self._path, "ordinal": ordinal, "name": name, "elapsed": self.meter.elapsed}
        step = kind(**place, replayed=replayed, **parts)
        self._question.steps.append(step)
        if self._question.observer is not None:
            self._question.observer(Event("end", step.span, step.name, self.usage, step))


@runtime_checkable
class Method(Protocol):
    """A paper's algorithm. It sees only the question, so no gold answer can leak into it.

    One method answers many questions at once, so the state of a question belongs in `solve`, not in the method.

    Every effect goes through `run`. A method calls `run.propose` whenever it has a usable answer; if the budget ends
    early, the last proposal is the result.
    """

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""


@runtime_checkable
class Sizable(Method, Protocol):
    """A method in several sizes: more samples, more documents, more rounds.

    A dry run tells the cost of each size (`reground.evaluation.scaling`). A method that parses its replies has the
    class variable `usual`: a typical reply for each name of a call, in which "{number}" makes every reply different.
    """

    def sizes(self) -> Sequence[Method]:
        """The method in all useful sizes, cheapest first."""


@dataclass(frozen=True)
class Solved:
    """A trajectory, and the exception behind its failure if it has one."""

    trajectory: Trajectory
    error: Exception | None = None


def _in_language_of(question: str, method: Any, form: object) -> Any:
    has_field = is_dataclass(method) and any(each.name == "form" and each.init for each in fields(method))
    named = form.in_language_of(question) if isinstance(form, AnswerForm) and has_field else form
    return method if named == form else replace(method, form=named)


async def solve(method: Method, question: str, run: Run, /, *, id: str, name: str) -> Solved:
    """Never raises for what goes wrong in the method: a failed question is data too.

    When the budget ends, the last proposed answer is the result and the trajectory names the limit. A program that the
    budget cut short is replaced by the last whole answer proposed before it. Cancellation (Ctrl-C) passes through.
    """
    answer: Answer | None = None
    stopped: str | None = None
    error: Exception | None = None
    failure: Failure | None = None
    form = getattr(method, "form", None)
    try:
        result = await awaited(_in_language_of(question, method, form).solve, question, run)
        if not isinstance(result, Answer):
            raise ConfigurationError(f"{origin(method)}: solve gave {result!r:.80}, not a reground.core.answers.Answer")
        answer = result
    except BudgetExceeded as end:
        answer, stopped = run.best, end.limit
        run.note("budget ended", limit=end.limit, why=str(end))
        error = end if answer is None else None
    except Exception as problem:
        error = problem
    if error is not None:
        frame = traceback.extract_tb(error.__traceback__)[-1]  # where a bug arose is worth knowing
        place = "" if isinstance(error, RegroundError) else f" ({Path(frame.filename).name}:{frame.lineno})"
        failure = Failure(type=type(error).__name__, message=f"{error}{place}")
    writes_code = isinstance(form, AnswerForm) and form.draft_is_query
    if answer is not None and run.whole is not None and writes_code and run.meter.has_cut(answer.text):
        run.note("answer cut", why="the token budget cut the program: the whole answer before it", written=answer.text)
        answer, stopped = run.whole, "tokens"
    why = _ungrounded(method, run.steps)
    if answer is not None and why is not None:
        run.note(UNGROUNDED, why=why)
    trajectory = Trajectory.model_construct(
        version=VERSION,
        id=id,
        question=question,
        method=name,
        steps=run.steps,
        answer=answer,
        failure=failure,
        stopped=stopped,
        usage=run.usage,
        seconds=run.meter.elapsed,
    )
    return Solved(trajectory, error)


def _ungrounded(method: Method, steps: Sequence[Step]) -> str | None:
    """Why a method with documents read none; None if it has no documents or retrieved a passage."""
    searches = [step for step in steps if isinstance(step, RetrieveStep)]
    if getattr(method, "retriever", None) is None or any(step.passages for step in searches):
        return None
    if searches:
        return "nothing was found"
    failed = any(isinstance(step, NoteStep) and step.name == "retrieval failed" for step in steps)
    return "every search failed" if failed else "nothing was searched"
