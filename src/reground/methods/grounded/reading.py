"""Reading an answer from passages: with quotes, briefly, with the right to abstain, by votes, or passage by passage.

All are off unless a user turns them on. Quotes first: Menick et al. 2022. Votes: self-consistency (Wang et al. 2022),
here over short answers, weighed by their probability. Passages apart: isolate-then-aggregate (Xiang et al. 2024), for
models that unneeded context confuses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reground.core.answers import ABSTENTION, PHRASE, TEXT, AnswerForm, abstains
from reground.core.citations import only_markers
from reground.core.concurrency import gather
from reground.core.language import REPLY_TOKENS, LanguageModel, Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.baselines import stated
from reground.methods.grounded.answerability import FEWEST, MOST, lacking
from reground.methods.shared.evidence import Evidence
from reground.methods.shared.prompts import require, require_choices
from reground.methods.shared.steps import squeezed

_BRIEF = (
    "Write only the answer, in as few words as possible, and behind it the numbers of the passages that hold it, like "
    "[1]."
)
_ABSTAIN = f"If the passages do not hold the answer, write only: {ABSTENTION}"
_PHRASES = frozenset({"text", "phrase"})
_WARM = 0.7
"""The temperature of samples that vote (Wang et al. 2022, section 3.1)."""


@dataclass(frozen=True, kw_only=True)
class Reader:
    """A model and how it reads an answer from passages.

    model: the model that answers. form: the form of the answer.
    quote: whether an answer begins with the sentences that hold it, in forms that cite.
    brief: whether an answer is a phrase with the numbers of its passages, also where the form is prose.
    abstain: whether the model may write `ABSTENTION`; any answer is better than that.
    by_words: what the words of a question with names or numbers decide. silence: where the passages lack many of them
    the answer is `ABSTENTION` without a call. both: besides, where they lack few the model may not abstain.
    votes: samples of each prompt, whose short answers vote with their probability; 1 is a single greedy reply.
    apart: whether each passage is read by itself, and the answers vote.
    passage_tokens: maximum length of a passage in tokens. temperature: sampling temperature; 0 is greedy.
    max_tokens: maximum tokens of an answer.
    """

    model: LanguageModel
    form: AnswerForm = TEXT
    quote: bool = False
    brief: bool = False
    abstain: bool = False
    by_words: Literal["no", "silence", "both"] = "no"
    votes: int = 1
    apart: bool = False
    passage_tokens: int = 2000
    temperature: float = 0.0
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        require(self.votes >= 1, "votes must be at least 1")
        require(min(self.passage_tokens, self.max_tokens) >= 1, "token limits must be at least 1")
        require_choices(self)
        require(self.abstain or self.by_words == "no", "by_words is about abstaining: set abstain=true too")
        require(not (self.quote and self.brief), "an answer is either quoted first or brief: set one of the two")

    async def read(
        self, template: str, question: str, evidence: Evidence, run: Run, *, name: str, uses: float = 1
    ) -> Reply:
        """The reply that answers from all passages. `evidence.held` are those that it has read.

        template: places {passages}, {question} and {form}. uses: as in `Evidence.fill`.
        """
        may_abstain = self._may_abstain(question, evidence, run)
        if may_abstain is None:
            evidence.held = list(evidence.all)  # it says something of them
            return Reply(text=ABSTENTION)
        values = {"question": question, "form": self.stated(abstain=may_abstain)}
        groups = [[marker] for marker in evidence.all] if self.apart and evidence.passages else [[*evidence.all]]
        prompts, held = [], []
        for group in groups:  # none has been asked yet, so all share the same room
            tokens, share = self.passage_tokens, uses * len(groups)
            prompts.append(evidence.fill(template, values, group, run, tokens=tokens, uses=share))
            held.append(evidence.held)
        drawn = await gather(self._draw(prompts[0], run, name), *(self._perhaps(p, run, name) for p in prompts[1:]))
        replies = [(reply, group) for some, group in zip(drawn, held, strict=True) for reply in some]
        chosen = self._elect([reply for reply, _ in replies], question, run) if self.votes > 1 or groups[1:] else 0
        reply, evidence.held = replies[chosen]
        if only_markers(reply.text, most=len(evidence.passages)):  # as in RAG
            with run.optional():
                values["form"] = self.form.short
                tokens = self.passage_tokens
                prompt = evidence.fill(template, values, list(evidence.held), run, tokens=tokens, uses=uses)
                reply, *_ = await self._draw(prompt, run, name, votes=1)
        return reply

    def stated(self, *, abstain: bool) -> str:
        """How a call states its answer, and that it may abstain."""
        brief = self.brief and self.form.name in _PHRASES
        how = _BRIEF if brief else stated(self.form, quote=self.quote)
        return f"{how} {_ABSTAIN}" if abstain else how

    @property
    def compared(self) -> AnswerForm:
        """The form by which two replies are the same answer: the numbers behind a brief one do not count."""
        return PHRASE if self.brief and self.form.name in _PHRASES else self.form

    def _may_abstain(self, question: str, evidence: Evidence, run: Run) -> bool | None:
        """Whether the model may abstain; None where it need not be asked, because the passages lack too much."""
        texts = (f"{passage.title} {passage.text}" for passage in evidence.passages)
        share = None if self.by_words == "no" else lacking(question, texts)
        if share is None:
            return self.abstain
        if share > MOST:
            run.note("abstained", why="the passages lack the question's words", lacking=round(share, 3))
            return None
        return self.by_words == "silence" or share >= FEWEST

    async def _draw(self, prompt: str, run: Run, name: str, votes: int | None = None) -> Sequence[Reply]:
        n = self.votes if votes is None else votes
        warm = _WARM if self.votes > 1 else self.temperature
        sampling = Sampling(n=n, temperature=warm, max_tokens=self.max_tokens, logprobs=True)
        return await run.generate(self.model, prompt, name=name, sampling=sampling, logprobs="welcome")

    async def _perhaps(self, prompt: str, run: Run, name: str) -> Sequence[Reply]:
        """The replies, or none where a limit refuses the call."""
        with run.optional():
            return await self._draw(prompt, run, name)
        return ()

    def _elect(self, replies: Sequence[Reply], question: str, run: Run) -> int:
        chosen = elected(replies, self.compared)
        said = [Candidate(text=reply.text, logprob=reply.mean_logprob) for reply in replies]
        run.choose("vote", by="probability", context=question, candidates=said, chosen=chosen, why="most weight")
        return chosen


def elected(replies: Sequence[Reply], form: AnswerForm) -> int:
    """The place of the most probable reply among those whose short answer has most weight.

    A reply weighs its mean token probability, 1 without log-probabilities. An abstention, or an empty answer, wins only
    where there is nothing else. Letter case and white space do not count.
    """
    weight: dict[str, float] = defaultdict(float)
    keys = [_key(reply.text, form) for reply in replies]
    for key, reply in zip(keys, replies, strict=True):
        weight[key] += math.exp(reply.mean_logprob or 0.0) if key else 0.0
    best = max(weight, key=lambda key: (bool(key), weight[key]))
    return max(
        (place for place, key in enumerate(keys) if key == best),
        key=lambda place: (replies[place].mean_logprob or 0.0, -place),
    )


def _key(text: str, form: AnswerForm) -> str:
    """What a reply votes for; empty for an abstention."""
    return "" if abstains(text) else short(text, form).casefold()


def short(text: str, form: AnswerForm) -> str:
    """The short answer in a text, or the text where the form has none, with normalised white space."""
    return squeezed(form.extract(text) if form.final_pass else text)
