"""Rounds of reading and answering.

This method is the project's own, made for small models; docs/reproduction shows its results. A small model's draft
from memory misleads the queries, its reflections find no errors, and its refinements keep the faults of the draft. So
the first answer is written from the passages that the question finds, and a later one is written without seeing it.

Without rounds (`max_rounds=0`) it is RAG with more ways to read. The preset `grounded+reader` suits a model that
`reground train reader` has fitted to these prompts, and `grounded+cautious` is RAG that says so where the passages do
not hold the answer.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from reground.core.answers import ABSTENTION, PHRASE, Answer, abstains
from reground.core.evidence import only_markers
from reground.core.language import Reply
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.baselines import DOCUMENTS, RAGPrompts
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import CAVEAT, ending, render
from reground.methods.shared.revision import accepted, readable
from reground.methods.shared.settings import NotNegative, Retrieving, require
from reground.methods.shared.steps import squeezed
from reground.text.excerpts import FUNCTION_WORDS, terms
from reground.text.queries import clean_query, says_something

_BRIEF = (
    "Write only the answer, in as few words as possible, and behind it the numbers of the passages that hold it, like "
    "[1]."
)
_ABSTAIN = f"If the passages do not hold the answer, write only: {ABSTENTION}"


@dataclass(frozen=True, kw_only=True)
class Prompts(RAGPrompts):
    """What the two calls ask.

    answer: as in RAG. names: places {passages} and {question}.
    """

    names: str = (
        "{passages}\n\n" + CAVEAT + "\n\nQuestion:\n{question}\n\n"
        "To answer, one must look up other things that the passages name. Write the names of the people, places, "
        "works or organisations whose pages should be read next, separated by semicolons. Write only the names."
    )


@dataclass(frozen=True, kw_only=True)
class Grounded(Retrieving):
    """Grounded: answer from passages, name what to read next, answer again from everything, and keep the surer answer.

    Calls are named draft, query, retrieve and refine; a round after the first is a span `round`.

    prompts: the templates. k: new passages per round.
    max_rounds: maximum number of rounds after the first answer; an unchanged answer ends them early.
    query_tokens: maximum tokens of the names.
    quote: whether an answer begins with the sentences that hold it, in forms that cite (Menick et al. 2022).
    brief: whether an answer is a phrase with the numbers of its passages, also where the form is prose.
    abstain: whether the model may write `ABSTENTION`; any answer is better than that.
    by_words: what the words of a question with names or numbers decide. silence: where the passages lack many of them
    the answer is `ABSTENTION` without a call. both: besides, where they lack few the model may not abstain.
    """

    prompts: Prompts = Prompts()
    k: int = 3
    max_rounds: NotNegative = 2
    query_tokens: int = 64
    quote: bool = False
    brief: bool = False
    abstain: bool = False
    by_words: Literal["no", "silence", "both"] = "no"

    PRESETS: ClassVar = {
        "reader": {"brief": True, "abstain": True, "passage_tokens": 300, "max_tokens": 64},
        "cautious": {"max_rounds": 0, "k": 5, "abstain": True, "by_words": "silence"},
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.abstain or self.by_words == "no", "by_words is about abstaining: set abstain=true too")
        require(not (self.quote and self.brief), "an answer is either quoted first or brief: set one of the two")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence = Evidence()
        evidence.add(await find(run, self.retriever, question, k=self.k))
        best = await self._read(question, evidence, run, name="draft", number=0)
        text = readable(best, self.form)
        answer = run.propose(evidence.answer(text, run, self.form, sources=evidence.in_prompt, quote=self.quote))
        for number in range(1, self.max_rounds + 1):
            with run.span("round", round=number) as step:
                if not await self._read_more(question, text, evidence, step):
                    step.note("rounds ended", why="nothing was retrieved")
                    break
                reply = await self._read(question, evidence, step, name="refine", number=number)
                again = accepted(reply, step, self.form, template=self.prompts.answer, before="")
                if again is None or self._short(again) == self._short(text):
                    step.note("rounds ended", why="the answer is the same" if again else "the answer is empty or cut")
                    break
                if lacking(again):
                    step.note("answer kept", why="the later reading found none")
                elif lacking(text) or surer(best, reply, question, step):
                    text, best = again, reply
                    answer = evidence.answer(text, run, self.form, sources=evidence.in_prompt, quote=self.quote)
            run.propose(answer)
        return run.propose(answer)

    async def _read(self, question: str, evidence: Evidence, run: Run, *, name: str, number: int) -> Reply:
        """An answer from all passages, in the order of the rounds; `evidence.in_prompt` are those that it has read.

        number: the round; 0 is the first. Every round adds as many passages and reads all of them for its answer; the
        names are written from the passages of earlier rounds. So much of the room is kept for those to come.
        """
        form = _BRIEF if self._writes_phrase else ending(self.form, quote=self.quote)
        texts = (f"{passage.title} {passage.text}" for passage in evidence.passages)
        share = None if self.by_words == "no" else words_lacking(question, texts)
        if share is not None and share > MOST:
            run.note("abstained", why="the passages lack the question's words", lacking=round(share, 3))
            evidence.in_prompt = list(evidence.all)  # it says something of them
            return Reply(text=ABSTENTION)
        if self.abstain and (share is None or self.by_words == "silence" or share >= FEWEST):
            form = f"{form} {_ABSTAIN}"
        later = sum(2 * after + 1 for after in range(number + 1, self.max_rounds + 1))
        uses, tokens = (number + 1 + later) / (number + 1), self.passage_tokens
        sampling = self.sampling(logprobs=True)

        async def answer(form: str, markers: Sequence[int]) -> Reply:
            values = {"question": question, "form": form}
            prompt = evidence.fill(self.prompts.answer, values, markers, run, tokens=tokens, uses=uses)
            run.answer_from = None if self.max_rounds or self.quote else evidence.passages
            (reply,) = await run.generate(self.model, prompt, name=name, sampling=sampling, logprobs="welcome")
            return reply

        reply = await answer(form, evidence.all)
        if only_markers(reply.text, most=len(evidence.passages)):  # as in RAG
            with run.optional():
                reply = await answer(self.form.short, evidence.in_prompt)
        return reply

    async def _read_more(self, question: str, text: str, evidence: Evidence, run: Run) -> bool:
        """Retrieve what the model, having read the passages, names to read next: unseen passages if there are any.

        text: the answer so far, which is searched for where no name can be read. Whether anything was retrieved.
        """
        passages = evidence.show(evidence.in_prompt, tokens=self.passage_tokens)
        prompt = render(self.prompts.names, passages=passages, question=question)
        names = await run.ask(self.model, prompt, name="query", sampling=self.sampling(self.query_tokens))
        query = clean_query(names, fallback=question if lacking(text) else text)
        results = await find(run, self.retriever, query, k=self.k + len(evidence.passages))
        return bool(evidence.add((evidence.fresh(results) or results)[: self.k]))

    @property
    def _writes_phrase(self) -> bool:
        return self.brief and self.form.name in ("text", "phrase")

    def _short(self, text: str) -> str:
        """The key by which replies are compared: the short answer, or the whole reply in a form that has none. The
        numbers behind a brief one do not count."""
        form = PHRASE if self._writes_phrase else self.form
        return squeezed(form.extract(text) if form.final_pass else text)

    def sizes(self) -> Sequence[Grounded]:
        """More passages a round, then more rounds; without rounds as RAG."""
        if not self.max_rounds:
            return [replace(self, k=k) for k in DOCUMENTS]
        ladder = ((1, 1), (2, 1), (3, 1), (5, 1), (3, 2), (8, 1), (5, 2))
        return [replace(self, k=k, max_rounds=rounds) for k, rounds in ladder]


def surer(before: Reply, after: Reply, question: str, run: Run) -> bool:
    """Whether the later reply's mean token log-probability is at least as high.

    Without log-probabilities the later reply is taken, because it has read more.
    """
    old, new = before.mean_logprob, after.mean_logprob
    if old is None or new is None:
        run.note("refined answer taken", why="there are no log-probabilities to compare it by")
        return True
    better = new >= old
    candidates = [Candidate(text=reply.text, logprob=reply.mean_logprob) for reply in (before, after)]
    why = "the refined answer is " + ("no less sure" if better else "less sure")
    run.choose("answer", by="perplexity", context=question, candidates=candidates, chosen=int(better), why=why)
    return better


def lacking(text: str) -> bool:
    """Whether a reply holds no answer: it abstains, or has neither a letter nor a digit."""
    return abstains(text) or not says_something(text)


FEWEST, MOST = 0.15, 0.25
"""How much passages may lack to be taken to answer, and from where on they are not; docs/reproduction/reader.md has the
measurement."""
_NAME = 3.0
"""What a name or a number counts; another word counts 1."""
_STEM = 6
"""Letters by which words are compared: an ending after them, such as a plural, does not count."""


def words_lacking(question: str, texts: Iterable[str]) -> float | None:
    """The share of a question's words that none of the texts has, from 0 to 1.

    Answerability is that of Rajpurkar et al. 2018 ("Know What You Don't Know"). Words decide the clear cases: passages
    that lack the names of a question are about something else, and those that have nearly all of its words are about
    it. In between the model says whether they hold the answer; docs/reproduction/reader.md measures it.
    None for a question without a name or a number: its other words say too little of what it is about.
    """
    names = {
        term[:_STEM] for word in question.split()[1:] if any(map(str.isupper, word)) for term in terms(word)
    }  # the first word's capital makes no name
    weights = {
        term[:_STEM]: _NAME if term[:_STEM] in names or any(map(str.isdigit, term[:_STEM])) else 1.0
        for term in terms(question)
        # neither a function word nor a letter that an apostrophe cut off
        if term not in FUNCTION_WORDS and (len(term) > 1 or term.isdigit() or not term.isascii())
    }
    if _NAME not in weights.values():
        return None
    present = {term[:_STEM] for text in texts for term in terms(text)}
    return sum(weight for stem, weight in weights.items() if stem not in present) / sum(weights.values())
