"""Run: the only way for a method to reach the world. It records, replays and keeps to the budget."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import ClassVar, Literal, TypeVar

from pydantic import JsonValue

from reground.core.answers import Answer
from reground.core.budget import Budget, Meter, Reservation
from reground.core.effects import EXECUTION, FOUND, REPLIES, SCORES, harmless, priced, usage_of, usage_of_ended
from reground.core.errors import BudgetExceeded, CapabilityError, ModelError, ParseError
from reground.core.events import Observer
from reground.core.evidence import Found, Passage, Retriever, Skipped
from reground.core.journal import Effect, Journal, MemoryJournal, fingerprint
from reground.core.language import (
    LEAST_REPLY,
    LanguageModel,
    Message,
    Prompt,
    Reply,
    Sampling,
    Terms,
    Usage,
    as_messages,
    tokens_of,
)
from reground.core.optional import Optional
from reground.core.pairs import Pair, Scorer, comparable
from reground.core.programs import Execution, Program, Sandbox
from reground.core.reasoning import separate
from reground.core.recording import Limited, Recording, Shared
from reground.core.storable import storable_text
from reground.core.trajectory import (
    ExecuteStep,
    GenerateStep,
    RetrieveStep,
    ScoreStep,
)
from reground.core.untrusted import neutralise, unfence

T = TypeVar("T")
Kind = TypeVar("Kind", bound="Run")
_log = logging.getLogger(__name__)
_NOT_ASKED: Mapping[str, object] = {"logprobs": False, "grammar": None}


class Run(Recording):
    """One question's run, or a span of it.

    A span is a child run with its own ordinals. Each concurrent branch takes one, opened in a fixed order, so that
    replay finds the same keys.

    foresees: whether guesses can be made for it (`core.ahead`).
    seed: base seed. Each sampled call without its own seed derives one from this and its position, so a resumed run
    draws the same samples. None leaves seeds to the model.
    recorded: what the journal has of this question, if it has been read; by default it is read now.
    """

    foresees: ClassVar[bool] = True

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
        recorded: dict[tuple[str, int], Effect] | None = None,
    ) -> None:
        journal = journal if journal is not None else MemoryJournal()
        recorded = recorded if recorded is not None else journal.load(run_id, question_id)
        meter = Meter(budget if budget is not None else Budget())
        self._shared = Shared(run_id, question_id, journal, meter, observer, seed, recorded, hidden=hidden)
        self._path = ""
        self._ordinal = 0
        self._children: dict[str, int] = {}

    @property
    def best(self) -> Answer | None:
        """The answer proposed last."""
        return self._shared.best

    def propose(self, answer: Answer) -> Answer:
        """Keep `answer` as the best so far: it is the result if the budget ends. Returns it."""
        self._shared.best = answer
        if not self.meter.has_cut(answer.text):
            self._shared.whole = answer
        return answer

    @property
    def whole(self) -> Answer | None:
        """The answer proposed last that the token budget has not cut."""
        return self._shared.whole

    def span(self, name: str, **data: JsonValue) -> Run:
        """A child run for one branch, for use in a with statement; `data` is recorded with it."""
        name = storable_text(name)
        count = self._children.get(name, 0)
        self._children[name] = count + 1
        child = self._under(type(self), f"{self._path}/{name}.{count}", 0, {})
        if data:
            child.note("span", **data)
        return child

    def twin(self, kind: type[Kind], path: str) -> Kind:
        """This span as it stands, as a run of another kind that keeps its records under another path.

        Its next effects have the ordinals, and its next spans the numbers, that they would have here.
        """
        return self._under(kind, path, self._ordinal, dict(self._children))

    def _under(self, kind: type[Kind], path: str, ordinal: int, children: dict[str, int]) -> Kind:
        """Another span of the question. It has nothing of its kind's own yet."""
        made = object.__new__(kind)
        made._shared = self._shared
        made._path, made._ordinal, made._children = path, ordinal, children
        return made

    def __enter__(self) -> Run:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing: a span only names its effects."""

    def keeping(self, prompt: Callable[[], Prompt] | None, *, reply: int) -> Optional:
        """A block that keeps enough of the budget for the call after it.

        If a call inside needs that, the block ends early, with a note.

        prompt: the later call's prompt as it would be now; None keeps nothing, and no limit ends the block.
        reply: tokens of the later call's reply.
        """
        if prompt is None:
            return Optional(self._note_end, nullcontext(), frozenset())
        return Optional(self._note_end, self.meter.holding(lambda: tokens_of(prompt()) + reply))

    def optional(self) -> Optional:
        """A block that ends early, with a note, if a limit of tokens or calls refuses a call in it."""
        return Optional(self._note_end, nullcontext())

    def _note_end(self, why: str) -> None:
        self.note("ended early", why=why)

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
        wanted = sampling if sampling is not None else Sampling()
        messages = tuple(harmless(message) for message in as_messages(prompt))
        ordinal = self._next()
        texts = [text for m in messages for text in (m.role, m.content)]
        mark = fingerprint("generate", model.name, wanted.model_dump_json(), *texts)
        asked = self._seeded(wanted, ordinal)
        optional = {"logprobs": logprobs == "welcome", "grammar": grammar == "welcome"}

        limited = self._limited(mark)

        async def pay() -> tuple[Reply, ...]:
            return await self._paid(model, messages, asked, name, least, limited, optional=optional)

        replies, recorded_at = await self._made(ordinal, mark, name, REPLIES, pay, limited=limited)
        if recorded_at is not None:
            self._shared.meter.replay(priced(usage_of(replies), model), recorded_at, messages)
        replies = unfence(replies, messages)  # the journal keeps the originals
        found = {"model": model.name, "messages": messages, "sampling": asked, "replies": replies}
        self._record(GenerateStep, ordinal, name, replayed=recorded_at is not None, **found)
        if limited is not None and limited.is_cut:
            self._shared.meter.see(replies)
        if wanted.logprobs and logprobs == "needed" and any(reply.token_logprobs is None for reply in replies):
            raise CapabilityError(
                f"{model.name} gave no log-probabilities, which this method needs; choose a model or a server that does"
            )
        return list(replies)

    def _limited(self, mark: str) -> Limited | None:
        """How the budget's doings with a call are recorded."""
        limits, usd = self.meter.limits, self.meter.budget.usd
        if limits is None and usd is None:
            return None
        refusing = [str(limits)] if usd is None else [str(limits), str(usd)]  # a limit in US dollars cuts no reply
        return Limited(fingerprint("cut", mark, str(limits)), fingerprint("refused", mark, *refusing))

    def _seeded(self, wanted: Sampling, ordinal: int) -> Sampling:
        """The sampling with a seed if it needs one, derived from the call's position, which timing cannot change."""
        shared = self._shared
        if shared.seed is None or wanted.seed is not None or wanted.temperature == 0:
            return wanted
        place = fingerprint("seed", str(shared.seed), shared.question_id, self.place, str(ordinal))
        return wanted.model_copy(update={"seed": int(place[:8], 16) % 2**31})

    async def _paid(
        self,
        model: LanguageModel,
        messages: tuple[Message, ...],
        asked: Sampling,
        name: str,
        least: int,
        limited: Limited | None,
        *,
        optional: Mapping[str, bool],
    ) -> tuple[Reply, ...]:
        """Call the model. What is optional and it refuses is left out, now and later."""
        lacking = self._shared.lacking
        while True:
            left_out = [wish for wish in optional if optional[wish] and (model.name, wish) in lacking]
            sampling = asked.model_copy(update={wish: _NOT_ASKED[wish] for wish in left_out}) if left_out else asked
            try:
                return await self._pay(model, messages, sampling, name, least, limited)
            except CapabilityError as error:
                if not optional[error.lacks] or error.lacks in left_out:
                    raise
                lacking.add((model.name, error.lacks))

    async def _pay(
        self,
        model: LanguageModel,
        messages: tuple[Message, ...],
        wanted: Sampling,
        name: str,
        least: int,
        limited: Limited | None,
    ) -> tuple[Reply, ...]:
        meter = self._shared.meter
        sampling, reserved = self._admitted(model, messages, wanted, least)
        self._begin(name)
        usage: Usage | None = None
        try:
            replies = tuple(separate(reply) for reply in await meter.within(model.generate(messages, sampling)))
            usage = usage_of(replies)
        except BudgetExceeded:
            usage = usage_of_ended(messages, model)
            raise
        except ModelError as error:
            usage = usage_of(error.paid) if error.paid else None
            raise
        finally:
            meter.settle(reserved, usage)
        if limited is not None:
            limited.is_cut = _is_cut(replies, sampling, wanted)
        return replies

    def _admitted(
        self, model: LanguageModel, messages: tuple[Message, ...], wanted: Sampling, least: int
    ) -> tuple[Sampling, Reservation]:
        """Reserve a call in the budget, with its sampling cut to what is left."""
        return self._shared.meter.admit(messages, wanted, least=least, terms=Terms.of(model))

    async def ask(
        self,
        model: LanguageModel,
        prompt: Prompt,
        /,
        *,
        name: str,
        sampling: Sampling | None = None,
        least: int = LEAST_REPLY,
    ) -> str:
        """Call a model for one reply and return its text."""
        return (await self.generate(model, prompt, name=name, sampling=sampling, least=least))[0].text

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
    ) -> T:
        """Call a model and parse its reply. On a ParseError, send its message back; at most `attempts` calls."""
        messages = list(as_messages(prompt))
        for attempt in range(1, attempts + 1):
            text = await self.ask(model, messages, name=name, sampling=sampling)
            try:
                return parser(text)
            except ParseError as complaint:
                self.note("parse error", of=name, attempt=attempt, complaint=str(complaint))
                if attempt == attempts:
                    raise
                messages += [
                    Message(role="assistant", content=text),
                    Message(
                        role="user", content=f"That could not be used: {complaint} Answer again in the form asked for."
                    ),
                ]
        raise AssertionError("attempts must be at least 1")

    async def retrieve(self, retriever: Retriever, query: str, /, *, k: int, name: str = "retrieve") -> list[Passage]:
        """Retrieve at most `k` passages of documents that are not hidden, with control tokens in their text broken."""
        query = storable_text(query)
        mark = fingerprint("retrieve", retriever.name, str(k), query, *sorted(self._shared.hidden))

        async def search() -> tuple[Passage | Skipped, ...]:
            found, skipped = await self._visible(retriever, query, k)
            harmless = (p.model_copy(update={"text": neutralise(p.text), "title": neutralise(p.title)}) for p in found)
            return (*harmless, *skipped)

        ordinal = self._next()
        found, replayed = await self._once(ordinal, mark, name, FOUND, search)
        passages = [each for each in found if isinstance(each, Passage)]
        step = {"retriever": retriever.name, "query": query, "k": k, "passages": tuple(passages)}
        skipped = tuple(each for each in found if isinstance(each, Skipped))
        self._record(RetrieveStep, ordinal, name, replayed=replayed, **step, skipped=skipped)
        return passages

    async def _visible(self, retriever: Retriever, query: str, k: int) -> tuple[Sequence[Passage], tuple[Skipped, ...]]:
        """The first passages that this question may read, and what the search skipped; a search goes deeper for those
        in place of hidden ones."""
        hidden, depth = self._shared.hidden, k
        while True:
            found = await retriever.retrieve(query, k=depth)
            kept = [p for p in found if p.id not in hidden and p.page_id not in hidden]
            if len(kept) >= k or len(found) < depth or len(kept) == len(found):
                return kept[:k], Found.like(found, ()).skipped
            depth *= 2

    async def execute(self, sandbox: Sandbox, program: Program, /, *, name: str = "execute") -> Execution:
        """Run a generated program in isolation."""
        mark = fingerprint("execute", sandbox.name, program.model_dump_json())
        ordinal = self._next()
        execution, replayed = await self._once(ordinal, mark, name, EXECUTION, lambda: sandbox.execute(program))
        found = {"sandbox": sandbox.name, "program": program, "execution": execution}
        self._record(ExecuteStep, ordinal, name, replayed=replayed, **found)
        return execution

    async def score(self, critic: Scorer, pairs: Sequence[Pair], /, *, name: str = "score") -> list[float]:
        """Let a critic score candidates. Raises ModelError unless it gives one score per pair.

        Scores are recorded, because another machine or build may compute different ones. If the critic calls a model
        through this run, its calls are recorded instead.
        """
        mark = fingerprint("score", critic.name, *(text for pair in pairs for text in (pair.context, pair.candidate)))

        async def judge() -> tuple[float, ...]:
            scores = tuple(comparable(score) for score in await critic.score(pairs, self))
            if len(scores) != len(pairs):
                raise ModelError(f"the critic {critic.name} gave {len(scores)} scores for {len(pairs)} candidates")
            return scores

        ordinal, calls = self._next(), (self._ordinal, dict(self._children))

        def computed() -> bool:
            return calls == (self._ordinal, self._children)

        scores, replayed = await self._once(ordinal, mark, name, SCORES, judge, keep=computed)
        if computed():
            found = {"critic": critic.name, "pairs": tuple(pairs), "scores": scores}
            self._record(ScoreStep, ordinal, name, replayed=replayed, **found)
        return list(scores)


def _is_cut(replies: Sequence[Reply], sampling: Sampling, wanted: Sampling) -> bool:
    """Whether a call that the budget shortened wrote less than the one that was wanted would have."""
    if sampling.n < wanted.n:
        return True
    return sampling.max_tokens < wanted.max_tokens and any(reply.finish_reason == "length" for reply in replies)
