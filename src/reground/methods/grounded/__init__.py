"""Grounded: answer from passages, name what to read next, answer again from everything, and keep the surer answer.

This method is the project's own, made for small models; docs/reproduction shows its results. A small model's draft
from memory misleads the queries, its reflections find no errors, and its refinements keep the faults of the draft. So
the first answer is written from the passages that the question finds, and a later one is written without seeing it.

Without rounds (`max_rounds=0`) it is RAG with more ways to read: see `reading`. The preset `grounded+reader` suits a
model that `reground train reader` has fitted to these prompts, and `grounded+cautious` is RAG that says so where the
passages do not hold the answer.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reground.core.answers import Answer, abstains
from reground.core.evidence import Passage, Retriever
from reground.core.language import Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.baselines import DOCUMENTS, RAGPrompts
from reground.methods.grounded.names import read_names, some_of
from reground.methods.grounded.reading import Reader, short
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import QUOTED, render, require
from reground.methods.shared.revision import accepted, readable
from reground.text.queries import clean_query, says_something
from reground.text.sentences import names_in

_NAMES = 2
"""Names that a query holds at most, where they are chosen from those in the passages."""


@dataclass(frozen=True, kw_only=True)
class Prompts(RAGPrompts):
    """What the two calls ask.

    answer: as in RAG. names: places {passages} and {question}.
    """

    names: str = (
        "{passages}\n\n" + QUOTED + "\n\nQuestion:\n{question}\n\n"
        "To answer, one must look up other things that the passages name. Write the names of the people, places, "
        "works or organisations whose pages should be read next, separated by semicolons. Write only the names."
    )


@dataclass(frozen=True, kw_only=True)
class Grounded(Reader):
    """Rounds of reading and answering.

    Calls are named draft, query, retrieve and refine; a round after the first is a span `round`.

    retriever: the index to search. prompts: the templates. k: new passages per round.
    max_rounds: maximum number of rounds after the first answer; an unchanged answer ends them early.
    query_tokens: maximum tokens of the names.
    bridge: free lets the model write any names; named only those that the passages hold, by a grammar where the model
    can keep to one. Titles that were read are left out.
    sure: mean log-probability of its tokens from which on a first answer stands without another round; none always
    goes on. An abstention never stands.
    """

    retriever: Retriever
    prompts: Prompts = Prompts()
    k: int = 3
    max_rounds: int = 2
    query_tokens: int = 64
    bridge: Literal["free", "named"] = "free"
    sure: float | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.k >= 1 and self.max_rounds >= 0, "k must be at least 1 and max_rounds 0 or more")
        require(self.query_tokens >= 1, "token limits must be at least 1")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        evidence = Evidence()
        evidence.add(await find(run, self.retriever, question, k=self.k))
        reply = await self._read(question, evidence, run, name="draft", number=0)
        said, best = readable(reply, self.form), reply
        answer = run.propose(evidence.answer(said, run, self.form, shown=evidence.held))
        if self._stands(said, reply):
            run.note("rounds ended", why="the first answer is sure")
            return answer
        for number in range(1, self.max_rounds + 1):
            with run.span("round", round=number) as step:
                names = await self._names(question, evidence, step)
                query = clean_query(names, fallback=question if lacking(said) else said)
                if not evidence.add(await self._more(query, evidence, step)):
                    step.note("rounds ended", why="nothing was retrieved")
                    break
                reply = await self._read(question, evidence, step, name="refine", number=number)
                again = accepted(reply, step, self.form, template=self.prompts.answer, before="")
                if again is None or short(again, self.compared) == short(said, self.compared):
                    step.note("rounds ended", why="the answer is the same" if again else "the answer is empty or cut")
                    break
                if lacking(again):
                    step.note("answer kept", why="the later reading found none")
                elif lacking(said) or surer(best, reply, question, step):
                    said, best = again, reply
                    answer = evidence.answer(said, run, self.form, shown=evidence.held)
            run.propose(answer)
        return run.propose(answer)

    async def _read(self, question: str, evidence: Evidence, run: Run, *, name: str, number: int) -> Reply:
        """An answer from all passages, in the order of the rounds."""
        return await self.read(self.prompts.answer, question, evidence, run, name=name, uses=self._uses(number))

    def _uses(self, number: int) -> float:
        """How often the passages of round `number` (0 is the first) are still to be read, in multiples of their size.

        Every round adds as many passages and reads all of them for its answer; the names are written from the
        passages of earlier rounds.
        """
        later = sum(2 * after + 1 for after in range(number + 1, self.max_rounds + 1))
        return (number + 1 + later) / (number + 1)

    def _stands(self, said: str, reply: Reply) -> bool:
        """Whether the first answer needs no second look."""
        sure = reply.mean_logprob
        return self.sure is not None and sure is not None and sure >= self.sure and not lacking(said)

    async def _names(self, question: str, evidence: Evidence, run: Run) -> str:
        """What the model, having read the passages, names to read next."""
        read = evidence.all if self.apart else evidence.held
        passages = evidence.show(read, tokens=self.passage_tokens)
        prompt = render(self.prompts.names, passages=passages, question=question)
        sampling = Sampling(temperature=self.temperature, max_tokens=self.query_tokens)
        offered = self._offered(evidence)
        if not offered:
            return await run.ask(self.model, prompt, name="query", sampling=sampling)
        sampling = sampling.model_copy(update={"grammar": some_of(offered, most=_NAMES)})
        (reply,) = await run.generate(self.model, prompt, name="query", sampling=sampling, grammar="welcome")
        return "; ".join(read_names(reply.text, offered)[:_NAMES])

    def _offered(self, evidence: Evidence) -> list[str]:
        """The names that the next query may hold; none where any may."""
        if self.bridge == "free":
            return []
        return names_in((each.text for each in evidence.passages), without=[each.title for each in evidence.passages])

    async def _more(self, query: str, evidence: Evidence, run: Run) -> list[Passage]:
        """Passages for a query; unseen ones if there are any."""
        found = await find(run, self.retriever, query, k=self.k + len(evidence.passages))
        return (evidence.fresh(found) or found)[: self.k]

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


def lacking(said: str) -> bool:
    """Whether a reply holds no answer: it abstains, or has neither a letter nor a digit."""
    return abstains(said) or not says_something(said)


METHOD = Grounded
PRESETS = {
    "reader": {"brief": True, "abstain": True, "passage_tokens": 300, "max_tokens": 64},
    "cautious": {"max_rounds": 0, "k": 5, "abstain": True, "by_words": "silence"},
}
