"""Forward-looking active retrieval.

Jiang et al. 2023, FLARE-direct with masked queries (equations 3 to 5). Their settings: look-ahead of 64 tokens, a
sentence with a token under probability 0.8 triggers retrieval, tokens under 0.4 are masked in the query. It needs real
log-probabilities: a model that gives none is refused. In RaR (table 1) it is scaled by the documents.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from reground.core.answers import PLAN, TEXT, Answer, AnswerForm, Thought
from reground.core.evidence import Retriever
from reground.core.language import LanguageModel, Reply, Sampling, TokenLogprob
from reground.core.run import Run
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import CAVEAT, Templates, cite, render
from reground.methods.shared.settings import Positive, require, require_types
from reground.text.queries import says_something
from reground.text.sentences import sentences

_LINE = re.compile(r"\s*+[^\n]*+\s*+")
_ANSWERED = re.compile(r"(?im)^[^\w\n]*+(?:final\s++)?+answer\W*:")


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """What the two calls ask, with {question}, {text} (the answer so far) and {form}.

    `informed` also has {passages} and {cite}.
    """

    ahead: str = (
        "Question:\n{question}\n\nThink step by step and answer. {form}\n\nWritten so far:\n{text}\n\n"
        "Go on from there. Do not repeat what is written."
    )
    informed: str = (
        "Question:\n{question}\n\nThink step by step and answer. {form}\n\nWritten so far:\n{text}\n\n{passages}\n\n"
        + CAVEAT
        + " {cite}\nGo on from there with the help of the passages. Do not repeat what is written."
    )


@dataclass(frozen=True, kw_only=True)
class FLARE:
    """FLARE (Active RAG): look ahead one sentence; if the model is unsure of a token, retrieve and rewrite it.

    model, retriever: the model that writes (with log-probabilities), and the index to search.
    form: the form of the answer. prompts: the templates. k: passages per retrieval.
    threshold: theta; a token with a lower probability triggers retrieval. 0 never retrieves, 1 at every sentence.
    mask: beta; a token with a lower probability is left out of the query.
    lookahead: number of tokens generated ahead. max_sentences: maximum number of sentences; of a plan, of lines.
    passage_tokens: maximum length of a passage in tokens. temperature: sampling temperature; 0 is greedy.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = Prompts()
    k: Positive = 2
    threshold: float = 0.8
    mask: float = 0.4
    lookahead: Positive = 64
    max_sentences: Positive = 64
    passage_tokens: Positive = 2000
    temperature: float = 0.0

    usual: ClassVar[Mapping[str, str]] = dict.fromkeys(
        ("look ahead", "write again"), "The one river is longer than the other by some hundred kilometres."
    )

    def __post_init__(self) -> None:
        require_types(self)
        require(0 <= self.mask <= self.threshold <= 1, "0 <= mask <= threshold <= 1 must hold")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence, thoughts, text = Evidence(), list[Thought](), ""
        parts = {"question": question, "form": self.form.instruction, "cite": cite(self.form)}

        def answer(text: str, run: Run) -> Answer:
            return run.propose(evidence.answer(text.strip(), run, self.form, steps=thoughts))

        for number in range(1, self.max_sentences + 1):
            with run.span("sentence", sentence=number) as step:
                reply = await self._write(render(self.prompts.ahead, **parts, text=text), step, name="look ahead")
                sentence, tokens = next_sentence(reply, self.form)
                query, markers = None, list[int]()
                if sentence.strip() and unsure(tokens, self.threshold):
                    answer(text + sentence, step)
                    query = masked(tokens, self.mask) or question
                    places = evidence.add(await find(step, self.retriever, query, k=self.k))
                    prompt = evidence.fill(
                        self.prompts.informed, {**parts, "text": text}, places, step, tokens=self.passage_tokens, uses=2
                    )
                    informed = await self._write(prompt, step, name="write again")
                    again, _ = next_sentence(informed, self.form)
                    if again.strip():
                        reply, sentence, markers = informed, again, evidence.in_prompt
                    else:
                        step.note("rewriting empty", kept=sentence.strip())
                allowed = [*markers, *evidence.markers_in(text, self.form)]
                checked = evidence.checked(sentence, step, self.form, markers=allowed).rstrip()
                statement = checked.strip()
            if not statement or statement in [thought.text for thought in thoughts]:
                break
            thoughts.append(Thought(text=statement, query=query, citations=tuple(markers)))
            text += checked + sentence[len(sentence.rstrip()) :]
            answer(text, run)
            ended = reply.finish_reason == "stop" and not reply.text[len(sentence.rstrip()) :].strip()
            if ended or _ANSWERED.search(sentence):
                break
        else:
            run.note("sentence limit", max_sentences=self.max_sentences)
        return answer(text, run)

    async def _write(self, prompt: str, run: Run, *, name: str) -> Reply:
        sampling = Sampling(temperature=self.temperature, max_tokens=self.lookahead, logprobs=True)
        (reply,) = await run.generate(self.model, prompt, name=name, sampling=sampling)
        return reply

    def sizes(self) -> Sequence[FLARE]:
        """More passages a retrieval."""
        return [replace(self, k=k) for k in (1, 2, 3, 5, 8)]


def next_sentence(reply: Reply, form: AnswerForm) -> tuple[str, Sequence[TokenLogprob]]:
    """The reply's first sentence with the white space that joins it to the next one, and its tokens.

    Of a plan it is the first line, which is one step. Of a program it is the whole look-ahead.
    """
    tokens = reply.token_logprobs or ()
    if form.draft_is_query:
        return reply.text, tokens
    lined = form.name == PLAN.name
    first = next(iter(_LINE.findall(reply.text) if lined else sentences(reply.text)), "")
    end = len(first.rstrip())
    joint = "\n" if lined and reply.finish_reason == "stop" else " "
    sentence = first if "\n" in first[end:] else f"{first[:end]}{joint}"
    return sentence, reply.upto(end).token_logprobs or tokens


def unsure(tokens: Sequence[TokenLogprob], threshold: float) -> bool:
    """Whether a token with a letter or digit is less probable than `threshold` (equation 3)."""
    return any(math.exp(token.logprob) < threshold for token in tokens if says_something(token.token))


def masked(tokens: Sequence[TokenLogprob], mask: float) -> str:
    """The sentence as a query: tokens less probable than `mask` are left out (equation 4)."""
    text = "".join(token.token if math.exp(token.logprob) >= mask else " " for token in tokens)
    query = " ".join(text.split())
    return query if says_something(query) else ""
