"""Grounded: answer from passages, name what to read next, answer again from everything, and keep the surer answer.

This method is the project's own, made for small models; docs/reproduction shows its results. A small model's draft
from memory misleads the queries, its reflections find no errors, and its refinements keep the faults of the draft. So
the first answer is written from the passages that the question finds, and a later one is written without seeing it.

Without rounds (`max_rounds=0`) it is RAG with more ways to read (`Reader`): quotes first (Menick et al. 2022), votes
(self-consistency, Wang et al. 2022) over short answers, weighed by their probability, and passages apart
(isolate-then-aggregate, Xiang et al. 2024), for models that unneeded context confuses. All are off unless a user turns
them on. The preset `grounded+reader` suits a model that `reground train reader` has fitted to these prompts, and
`grounded+cautious` is RAG that says so where the passages do not hold the answer.
"""

from __future__ import annotations

import json
import math
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from reground.core.answers import ABSTENTION, PHRASE, Answer, AnswerForm, abstains
from reground.core.citations import only_markers
from reground.core.concurrency import gather
from reground.core.evidence import Passage, Retriever
from reground.core.language import Grammar, Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate
from reground.methods.baselines import DOCUMENTS, RAGPrompts, stated
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import QUOTED, render
from reground.methods.shared.revision import accepted, readable
from reground.methods.shared.settings import Settings, require, require_choices
from reground.methods.shared.steps import squeezed
from reground.text.excerpts import FUNCTION_WORDS, terms
from reground.text.queries import clean_query, says_something
from reground.text.sentences import names_in

_BRIEF = (
    "Write only the answer, in as few words as possible, and behind it the numbers of the passages that hold it, like "
    "[1]."
)
_ABSTAIN = f"If the passages do not hold the answer, write only: {ABSTENTION}"
_PHRASES = frozenset({"text", "phrase"})
_WARM = 0.7
"""The temperature of samples that vote (Wang et al. 2022, section 3.1)."""


@dataclass(frozen=True, kw_only=True)
class Reader(Settings):
    """A model and how it reads an answer from passages.

    quote: whether an answer begins with the sentences that hold it, in forms that cite.
    brief: whether an answer is a phrase with the numbers of its passages, also where the form is prose.
    abstain: whether the model may write `ABSTENTION`; any answer is better than that.
    by_words: what the words of a question with names or numbers decide. silence: where the passages lack many of them
    the answer is `ABSTENTION` without a call. both: besides, where they lack few the model may not abstain.
    votes: samples of each prompt, whose short answers vote with their probability; 1 is a single greedy reply.
    apart: whether each passage is read by itself, and the answers vote.
    passage_tokens: maximum length of a passage in tokens.
    """

    quote: bool = False
    brief: bool = False
    abstain: bool = False
    by_words: Literal["no", "silence", "both"] = "no"
    votes: int = 1
    apart: bool = False
    passage_tokens: int = 2000

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.votes >= 1, "votes must be at least 1")
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
        share = None if self.by_words == "no" else words_lacking(question, texts)
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


def some_of(names: Sequence[str], *, most: int) -> Grammar:
    """A reply of one to `most` of the names, separated by semicolons."""
    one = " | ".join(json.dumps(name, ensure_ascii=False) for name in names)
    gbnf = f'root ::= name ("; " name){{0,{most - 1}}}\nname ::= {one}\n'
    items = {"type": "string", "enum": list(names)}
    schema = {
        "type": "object",
        "properties": {"names": {"type": "array", "items": items}},
        "required": ["names"],
        "additionalProperties": False,
    }
    return Grammar(gbnf=gbnf, json_schema=json.dumps(schema, ensure_ascii=False))


def read_names(reply: str, names: Sequence[str]) -> list[str]:
    """The names that a reply states, as text or as JSON, in its order; those that were not offered are left out."""
    try:
        said = json.loads(reply)["names"]
        parts = [str(each) for each in said] if isinstance(said, list) else []
    except (ValueError, KeyError, TypeError):
        parts = re.split(r"[;\n]", reply)
    known = {name.casefold(): name for name in names}
    keys = (" ".join(part.split()).strip("\"'“”*.- ").casefold() for part in parts)
    return list(dict.fromkeys(known[key] for key in keys if key in known))


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
        require(self.max_rounds >= 0, "max_rounds must be 0 or more")

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
        sampling = self.sampling(self.query_tokens)
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
    asked = _weights(question)
    if _NAME not in asked.values():
        return None
    there = {stem for text in texts for stem in map(_stem, terms(text))}
    return sum(weight for stem, weight in asked.items() if stem not in there) / sum(asked.values())


def _weights(question: str) -> Mapping[str, float]:
    """What each word of a question counts, by its stem. The first word's capital makes no name."""
    names = {_stem(term) for word in question.split()[1:] if any(map(str.isupper, word)) for term in terms(word)}
    return {
        stem: _NAME if stem in names or any(map(str.isdigit, stem)) else 1.0
        for stem in map(_stem, filter(_says, terms(question)))
    }


def _says(term: str) -> bool:
    """Whether a term is more than a function word or a letter that an apostrophe cut off."""
    return term not in FUNCTION_WORDS and (len(term) > 1 or term.isdigit() or not term.isascii())


def _stem(term: str) -> str:
    return term[:_STEM]


METHOD = Grounded
PRESETS = {
    "reader": {"brief": True, "abstain": True, "passage_tokens": 300, "max_tokens": 64},
    "cautious": {"max_rounds": 0, "k": 5, "abstain": True, "by_words": "silence"},
}
