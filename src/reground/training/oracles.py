"""Oracles: models that know a question's gold answer and passages, and say what a small model should learn to say.

`Gold` is what an oracle knows. `ReaderOracle` answers in `grounded`, `AgentOracle` in the Search Agent: each runs in
the method itself, in the model's place, and what it is asked and says become the rows (`demonstrations`). It sees
nothing but the prompt, so it never teaches what the prompt does not show.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field

from reground.core.answers import ABSTENTION
from reground.core.evidence import Pages, Passage, Retriever, unbracketed
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Run
from reground.core.untrusted import neutralise
from reground.evaluation.metrics.text import hit
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks.qa import gold_ids
from reground.evaluation.tasks.retrieval import document_id
from reground.methods.grounded import Grounded, Prompts
from reground.methods.search_agent import FINISH, SearchAgent
from reground.methods.search_agent.actions import GivenAnswer, LinkSelection, ResultItem, Search, Terminate, literal
from reground.methods.search_agent.actions import reply as code
from reground.methods.search_agent.steps import ANSWER, DECIDE, SUMMARISE
from reground.methods.search_agent.steps import Prompts as AgentPrompts
from reground.text.echoes import task_of
from reground.text.sentences import sentences
from reground.training.rows import Demonstration
from reground.training.settings import AgentLessons, ReaderLessons

_KIND = re.compile(r"\([^()]*\)\Z")


async def gold_passages(example: Example, pages: Pages) -> list[Passage] | str:
    """The gold passages, or why the question cannot be used."""
    gold = gold_ids(example)
    if isinstance(gold, str):
        return "questions without known gold passages"
    found = [await pages.page(each) for each in gold]
    opened = [page for page in found if page is not None and page.text.strip()]
    if len(opened) < len(gold):
        return "questions whose gold passages the corpus lacks"
    if not example.golden_answers:
        return "questions without a gold answer"
    if hit(example.golden_answers, [page.text for page in opened]) == 0:
        return "questions whose gold passages do not hold the answer"
    return opened


@dataclass(frozen=True)
class Support:
    """What a gold passage says for the answer.

    sentences: any of them stands for the passage, the best first. decides: whether they hold the answer's words.
    """

    title: str
    sentences: tuple[str, ...]
    decides: bool

    def shown(self, prompt: str) -> str | None:
        """The first of its sentences that a prompt holds; None for a prompt that does not show the passage."""
        return next((each for each in self.sentences if each in prompt), None)


def support(page: Passage, example: Example) -> Support:
    """The sentences of a gold passage that count: all with the answer, supporting ones first; else a supporting one;
    else the first.

    Some datasets number their supporting sentences by another splitter, so an answer's words count for more. Of a
    comparison only the first counts: its answer is often a page's own name, which most sentences hold.
    """
    parts = [neutralise(part.strip()) for part in sentences(page.text) if part.strip()]
    facts = example.metadata.get("supporting_facts")
    pairs = [fact for fact in facts if isinstance(fact, list)] if isinstance(facts, list) else []
    marked = [parts[at] for title, at in pairs if title == page.title and isinstance(at, int) and at < len(parts)]
    holding = [part for part in parts if hit(example.golden_answers, [part])]
    both = [part for part in marked if part in holding]
    counting = list(dict.fromkeys([*both, *holding])) or marked or parts
    most = len(holding) if holding and not compares(example) else 1
    return Support(title=page.title, sentences=tuple(counting[:most]), decides=bool(holding))


def compares(example: Example) -> bool:
    """Whether the question compares its gold passages, so that only all of them together hold the answer."""
    return example.metadata.get("type") in {"comparison", "bridge_comparison"}


@dataclass(frozen=True)
class Gold:
    """The answer of one question, and what its gold passages say for it.

    An answer that stands in one passage needs this passage alone; that of a comparison, or a yes and no, needs all.
    """

    answer: str
    supports: tuple[Support, ...]
    needs_all: bool

    @classmethod
    def of(cls, example: Example, pages: Sequence[Passage]) -> Gold:
        """What is known of an example with these gold passages."""
        supports = tuple(dict.fromkeys(support(page, example) for page in pages))
        needs_all = compares(example) or not any(each.decides for each in supports)
        return cls(example.golden_answers[0], supports, needs_all)

    def enough(self, shown: Collection[Support]) -> bool:
        """Whether these hold the answer."""
        return len(shown) == len(self.supports) if self.needs_all else any(each.decides for each in shown)


def mentions(text: str, title: str) -> bool:
    """Whether a text has a title, but for what stands in brackets behind it. Only such a title can be named next."""
    return _KIND.sub("", title).strip().casefold() in text.casefold()


@dataclass
class Lessons:
    """Rows, and why questions gave none."""

    rows: list[Demonstration] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    @property
    def kinds(self) -> Counter[str]:
        """The number of rows of each kind."""
        return Counter(_kind(row) for row in self.rows)

    def describe(self) -> str:
        """One line with the numbers."""
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(self.kinds.items()))
        left = ", ".join(f"{number} {why}" for why, number in sorted(self.left_out.items()))
        return f"{len(self.rows)} demonstrations ({kinds})" + (f"; left out: {left}" if left else "")


def _kind(row: Demonstration) -> str:
    return str(row.extra["kind"])


def _one_of_each(rows: Iterable[Demonstration], draw: random.Random) -> list[Demonstration]:
    """One row of each kind, in order: the second of a kind teaches little and is twice as long."""
    kinds: dict[str, list[Demonstration]] = {}
    for row in rows:
        kinds.setdefault(_kind(row), []).append(row)
    return [draw.choice(same) for same in kinds.values()]


@dataclass(frozen=True)
class Completed:
    """A search that always finds the gold passages: those it misses take the place of its last, wherever chance puts
    them.
    """

    retriever: Retriever
    gold: Sequence[Passage]
    draw: random.Random

    @property
    def name(self) -> str:
        """As the search that it completes."""
        return self.retriever.name

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """At least as many passages as there are gold ones."""
        wanted = {page.id for page in self.gold}
        found = list(await self.retriever.retrieve(query, k=k))
        there = {document_id(passage.id, wanted) for passage in found}
        missing = [page for page in self.gold if page.id not in there]
        room = max(k, len(self.gold)) - len(missing)
        others = [passage for passage in found if document_id(passage.id, wanted) not in wanted]
        for passage in others[::-1][: max(0, len(found) - room)]:
            found.remove(passage)
        for page in missing:
            found.insert(self.draw.randint(0, len(found)), page)
        return found


async def demonstrations(
    task: Task,
    examples: Sequence[Example],
    retriever: Retriever,
    pages: Pages,
    settings: ReaderLessons | AgentLessons,
    *,
    on_question: Callable[[int], None] = lambda done: None,
) -> Lessons:
    """What an oracle says over the examples; the same call gives the same rows.

    retriever: what will be searched later. pages: where the gold passages are opened. settings: those of a reader or
    of the agent, whose place the oracle takes.
    """
    made = Lessons()
    for done, example in enumerate(examples, start=1):
        gold = await gold_passages(example, pages)
        if isinstance(gold, str):
            made.left_out[gold] += 1
        elif isinstance(settings, AgentLessons):
            made.rows += await _agent_lessons(task, example, gold, retriever, settings)
        else:
            drawn: dict[tuple[Message, ...], Demonstration] = {}
            for repeat in range(settings.repeats):
                rows = await _reader_lessons(task, example, gold, retriever, settings, repeat)
                drawn |= {row.messages: row for row in rows}
            made.rows += drawn.values()
        on_question(done)
    return made


class Oracle:
    """The model of one question. rows: what it was asked and said, each with its kind."""

    name = "oracle"

    def __init__(self, example: Example, gold: Sequence[Passage]) -> None:
        self.rows: list[Demonstration] = []
        self._example, self._gold = example, Gold.of(example, gold)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """The one right reply. What no model could know is said, and is no row."""
        kind, text, learnable = self.reply(messages)
        if learnable:
            taught = (*messages, Message(role="assistant", content=text))
            self.rows.append(Demonstration(question=self._example.id, messages=taught, extra={"kind": kind}))
        return [Reply(text=text, usage=Usage(calls=1))]

    def reply(self, messages: Sequence[Message]) -> tuple[str, str, bool]:
        """The kind of a reply, its text, and whether it can be learnt."""
        raise NotImplementedError


_NUMBER = re.compile(r'<passage number="(\d+)"')
_ASKS_NAMES = task_of(Prompts().names)


class ReaderOracle(Oracle):
    """Answers in `grounded`.

    Kinds: `answer`, `abstain` or `names`. What to read next is the title of a gold passage that the prompt does not
    show. Where neither the question nor a passage mentions the title, no model could know it.
    """

    def reply(self, messages: Sequence[Message]) -> tuple[str, str, bool]:
        """Names to read, where they are asked for; else the answer with its passages."""
        prompt = messages[-1].content
        shown = {each: said for each in self._gold.supports if (said := each.shown(prompt)) is not None}
        if _ASKS_NAMES in prompt:
            missing = [each.title for each in self._gold.supports if each not in shown]
            return "names", "; ".join(missing), bool(missing) and all(mentions(prompt, title) for title in missing)
        if not self._gold.enough(shown):
            return "abstain", ABSTENTION, True
        first = sorted(shown, key=lambda each: not each.decides)
        markers = dict.fromkeys(f"[{_marker(prompt, shown[each])}]" for each in first)
        return "answer", f"{self._gold.answer} {''.join(markers)}", True


def _marker(prompt: str, sentence: str) -> str:
    """The number of the passage that a sentence stands in."""
    numbers: list[str] = _NUMBER.findall(prompt[: prompt.index(sentence)])
    return numbers[-1]


async def _reader_lessons(
    task: Task, example: Example, gold: Sequence[Passage], retriever: Retriever, settings: ReaderLessons, repeat: int
) -> list[Demonstration]:
    """What is to be learnt from one question, in the size and with the gaps that chance draws.

    Where the gold passages are put among those found, there is no second round.
    """
    draw = random.Random(f"{settings.seed}/{example.id}/{repeat}")
    hidden = hidden_documents(task, example)
    k, chance, rounds = draw.randint(2, settings.most_passages), draw.random(), 1
    if chance < settings.unanswerable:
        hidden |= frozenset(gold_ids(example))
    elif chance < settings.unanswerable + settings.complete:
        retriever, k, rounds = Completed(retriever, gold, draw), max(k, len(gold)), 0
    oracle = ReaderOracle(example, gold)
    reader = Grounded(
        model=oracle,
        retriever=retriever,
        form=task.form,
        k=k,
        max_rounds=rounds,
        passage_tokens=settings.passage_tokens,
        brief=True,
        abstain=True,
    )
    await reader.solve(example.question, Run(hidden=hidden))
    return _one_of_each(oracle.rows, draw)


_STRING = r'"(?:[^"\\]|\\.)*+"'
_ITEM = re.compile(rf"ResultItem\(link_id=(\d+), link_text=({_STRING}),\s*+snippet=({_STRING})\)")


def items(prompt: str) -> list[ResultItem]:
    """The search results that a prompt shows, those of past actions too."""
    return [
        ResultItem(int(number), ast.literal_eval(title), ast.literal_eval(snippet))
        for number, title, snippet in _ITEM.findall(prompt)
    ]


class AgentOracle(Oracle):
    """Acts in the Search Agent.

    Kinds: the step's name, or `finish`. It searches for the question first, and then for the title of a gold passage
    that it has not seen, if the question or a result mentions it: no model could know another one. Of a search it
    selects the results with the sentences that count, and copies these. It answers where the selected results hold the
    answer; else it says nothing, and nothing is to be learnt.
    """

    def reply(self, messages: Sequence[Message]) -> tuple[str, str, bool]:
        """What the step asks for; nothing where the answer has not been found."""
        prompts, prompt = AgentPrompts(), messages[-1].content
        for step, take in ((DECIDE, self._decide), (SUMMARISE, self._summarise), (ANSWER, self._answer)):
            if messages[0].content == prompts.system(step.name):
                text = take(prompt)
                return step.name, text, bool(text)
        return FINISH, self._gold.answer, True

    def _decide(self, prompt: str) -> str:
        if "Search(query=" not in prompt:
            return code(Search(" ".join(self._example.question.split()), "Nothing is known yet."))
        seen = self._shown(items(prompt))
        if self._gold.enough(seen):
            return code(Terminate("The results say what the answer needs."))
        for title in (each.title for each in self._gold.supports if each not in seen):
            if mentions(prompt, title) and f"Search(query={literal(title)}," not in prompt:
                return code(Search(title, f"It is not known yet what is said of {title}."))
        return code(Terminate("Nothing further is named that could be searched."))

    def _summarise(self, prompt: str) -> str:
        past, _, results = prompt.partition("CURRENT_SEARCH_RESULTS")
        found = self._shown(items(results))
        facts = " ".join(f"{sentence} [link_id={link}]" for link, sentence in found.values())
        links = tuple(sorted(link for link, _ in found.values()))
        enough = self._gold.enough({**self._shown(items(past)), **found})
        thoughts = "That is enough to answer." if enough else "Something is still missing."
        named = ", ".join(f"[link_id={link}]" for link in links)
        helping = f"Helpful: {named}." if links else "None of these results helps."
        return code(LinkSelection(facts or "Nothing here helps.", links, thoughts), [helping])

    def _answer(self, prompt: str) -> str:
        found = self._shown(items(prompt))
        if not self._gold.enough(found):
            return ""
        ordered = sorted(found, key=lambda each: not each.decides)
        links = "".join(f"[link_id={link}]" for link in dict.fromkeys(found[each][0] for each in ordered))
        return code(GivenAnswer(f"The answer is {self._gold.answer} {links}.", f"It stands in {links}."))

    def _shown(self, results: Sequence[ResultItem]) -> dict[Support, tuple[int, str]]:
        """Of each gold passage whose sentence is among these results, the link and the sentence."""
        found: dict[Support, tuple[int, str]] = {}
        for each in self._gold.supports:
            for item in results:
                shown = (unbracketed(" ".join(sentence.split())) for sentence in each.sentences)
                said = next((sentence for sentence in shown if sentence in item.snippet), None)
                if said is not None and each not in found:
                    found[each] = item.link_id, said
        return found


async def _agent_lessons(
    task: Task, example: Example, gold: Sequence[Passage], retriever: Retriever, settings: AgentLessons
) -> list[Demonstration]:
    """What is to be learnt from one question. The short answer is taught only where the long one was found."""
    draw, k = random.Random(f"{settings.seed}/{example.id}"), settings.k
    if draw.random() < settings.complete:
        retriever, k = Completed(retriever, gold, draw), max(k, len(gold))
    oracle = AgentOracle(example, gold)
    agent = SearchAgent(
        model=oracle,
        retriever=retriever,
        form=task.form,
        k=k,
        max_searches=settings.max_searches,
        snippet_tokens=settings.snippet_tokens,
        samples=1,
        temperature=0,
        shots=0,
        checks=False,
    )
    await agent.solve(example.question, Run(hidden=hidden_documents(task, example)))
    answered = any(_kind(row) == ANSWER.name for row in oracle.rows)
    return _one_of_each((row for row in oracle.rows if answered or _kind(row) != FINISH), draw)
