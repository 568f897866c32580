"""Reading an answer from passages: with quotes, briefly, with the right to abstain, by votes, or passage by passage.

Parts of methods that answer from passages; all are off unless a method or its user turns them on. Quotes first: Menick
et al. 2022. Votes: self-consistency (Wang et al. 2022), here over short answers, weighed by their probability. Passages
apart: isolate-then-aggregate (Xiang et al. 2024), for models that unneeded context confuses.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from reground.core.answers import ABSTENTION, PHRASE, AnswerForm, abstains
from reground.core.branches import gather
from reground.core.evidence import Passage
from reground.core.language import LanguageModel, Reply, Sampling
from reground.core.markers import only_markers
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.shared.answerability import FEWEST, MOST, lacking
from reground.methods.shared.evidence import Evidence
from reground.methods.shared.prompts import CITING, require, require_choices
from reground.methods.shared.steps import squeezed

_QUOTE = (
    "First copy the sentences of the passages that hold the answer, in quotation marks, each with the number of its "
    "passage, like [1]."
)
_BRIEF = (
    "Write only the answer, in as few words as possible, and behind it the numbers of the passages that hold it, like "
    "[1]."
)
_ABSTAIN = f"If the passages do not hold the answer, write only: {ABSTENTION}"
_PHRASES = frozenset({"text", "phrase"})
_WARM = 0.7
"""The temperature of samples that vote (Wang et al. 2022, section 3.1)."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How an answer is read from passages.

    quote: whether an answer begins with the sentences that hold it, in forms that cite.
    brief: whether an answer is a phrase with the numbers of its passages, also where the form is prose.
    abstain: whether the model may write `ABSTENTION`; any answer is better than that.
    by_words: what the words of a question with names or numbers decide. silence: where the passages lack many of them
    the answer is `ABSTENTION` without a call. both: besides, where they lack few the model may not abstain.
    votes: samples of each prompt, whose short answers vote with their probability; 1 is a single greedy reply.
    apart: whether each passage is read by itself, and the answers vote.
    """

    quote: bool = False
    brief: bool = False
    abstain: bool = False
    by_words: Literal["no", "silence", "both"] = "no"
    votes: int = 1
    apart: bool = False

    def __post_init__(self) -> None:
        require(self.votes >= 1, "votes must be at least 1")
        require_choices(self)
        require(self.abstain or self.by_words == "no", "by_words is about abstaining: set abstain=true too")
        require(not (self.quote and self.brief), "an answer is either quoted first or brief: set one of the two")

    def stated(self, form: AnswerForm, plain: str, *, abstain: bool = False) -> str:
        """How a call states its answer, and that it may abstain. plain: how it does with neither quotes nor brevity."""
        how = plain
        if self.quote and form.name in CITING:
            how = f"{_QUOTE} {form.instruction}"
        elif self.brief and form.name in _PHRASES:
            how = _BRIEF
        return f"{how} {_ABSTAIN}" if abstain else how

    def _may_abstain(self, question: str, passages: Sequence[Passage], run: Run) -> bool | None:
        """Whether the model may abstain; None where it need not be asked, because the passages lack too much."""
        texts = (f"{passage.title} {passage.text}" for passage in passages)
        share = None if self.by_words == "no" else lacking(question, texts)
        if share is None:
            return self.abstain
        if share > MOST:
            run.note("abstained", why="the passages lack the question's words", lacking=round(share, 3))
            return None
        return self.by_words == "silence" or share >= FEWEST

    def compared(self, form: AnswerForm) -> AnswerForm:
        """The form by which two replies are the same answer: the numbers behind a brief one do not count."""
        return PHRASE if self.brief and form.name in _PHRASES else form

    async def read(
        self,
        template: str,
        question: str,
        evidence: Evidence,
        markers: Sequence[int],
        run: Run,
        *,
        model: LanguageModel,
        form: AnswerForm,
        plain: str,
        name: str,
        tokens: int,
        sampling: Sampling,
        uses: float = 1,
    ) -> Reply:
        """The reply that answers. `evidence.held` are the passages that it has read.

        template: places {passages}, {question} and {form}. plain: as in `stated`. tokens, uses: as in `Evidence.fill`.
        """
        votes = self.votes > 1 or (self.apart and len(markers) > 1)
        if votes:
            warm = _WARM if self.votes > 1 else sampling.temperature
            sampling = sampling.model_copy(update={"n": self.votes, "temperature": warm, "logprobs": True})
        abstain = self._may_abstain(question, [evidence.passages[marker - 1] for marker in markers], run)
        if abstain is None:
            evidence.held = list(markers)  # it says something of them
            return Reply(text=ABSTENTION)
        values = {"question": question, "form": self.stated(form, plain, abstain=abstain)}
        groups = [[marker] for marker in markers] if self.apart and markers else [list(markers)]
        prompts, held = [], []
        for group in groups:  # none has been asked yet, so all share the same room
            prompts.append(evidence.fill(template, values, group, run, tokens=tokens, uses=uses * len(groups)))
            held.append(evidence.held)

        async def draw(prompt: str) -> Sequence[Reply]:
            return await run.generate(model, prompt, name=name, sampling=sampling, logprobs="welcome")

        async def perhaps(prompt: str) -> Sequence[Reply]:
            with run.optional():
                return await draw(prompt)
            return ()

        drawn = await gather(draw(prompts[0]), *map(perhaps, prompts[1:]))
        read = [(reply, group) for replies, group in zip(drawn, held, strict=True) for reply in replies]
        chosen = elected([reply for reply, _ in read], self.compared(form)) if votes else 0
        if votes:
            said = [Candidate(text=reply.text, logprob=reply.mean_logprob) for reply, _ in read]
            run.choose("vote", by="probability", context=question, candidates=said, chosen=chosen, why="most weight")
        reply, evidence.held = read[chosen]
        if only_markers(reply.text, most=len(evidence.passages)):
            # Asked to cite, a small model may answer "which of the two" with the number of a passage.
            with run.optional():
                values |= {"form": form.short}
                prompt = evidence.fill(template, values, list(evidence.held), run, tokens=tokens, uses=uses)
                (reply,) = await run.generate(model, prompt, name=name, sampling=sampling.model_copy(update={"n": 1}))
        return reply


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
