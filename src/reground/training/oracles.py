"""Oracles: models that know a question's gold answer and passages, and say what a small model should learn to say.

An `Oracle` stands in the model's place in a method and knows the hops from the question to the answer (`chain`). What
it is asked and says become the rows (`demonstrations`), but never what its prompt does not show.
"""

from __future__ import annotations

import ast
import random
import re
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from pydantic import BaseModel, ValidationError

from reground.core.answers import ABSTENTION, TEXT
from reground.core.evidence import Pages, Passage, Retriever, unbracketed
from reground.core.language import Message, Reply, Sampling, Usage
from reground.core.run import Method, Run
from reground.core.untrusted import fenced, neutralise, without_fenced
from reground.evaluation.metrics.text import hit
from reground.evaluation.task import Example, Task, hidden_documents
from reground.evaluation.tasks.qa import gold_ids
from reground.evaluation.tasks.retrieval import document_id
from reground.methods import grounded, ircot, rar
from reground.methods.baselines import RAG
from reground.methods.search_agent import ANSWER, DECIDE, FINISH, SUMMARISE, SearchAgent
from reground.methods.search_agent import Prompts as AgentPrompts
from reground.methods.search_agent.actions import GivenAnswer, LinkSelection, Search, Terminate, literal
from reground.methods.search_agent.actions import reply as code
from reground.methods.shared.revision import task_of
from reground.methods.shared.steps import alike
from reground.text.excerpts import FUNCTION_WORDS
from reground.text.sentences import sentences
from reground.training.rows import Demonstration
from reground.training.settings import READ, ReaderLessons

_KIND = re.compile(r"(?<=\S) \([^()]*\)\Z")  # what no text tells of a title
_WORD = re.compile(r"\w+")
_YEAR = re.compile(r"\b\d{4}\b")


async def gold_passages(example: Example, pages: Pages) -> list[Passage] | str:
    """The gold passages, or why the question cannot be used."""
    gold = gold_ids(example)
    if isinstance(gold, str):
        return "questions without known gold passages"
    results = [await pages.page(each) for each in dict.fromkeys(gold)]
    opened = [page for page in results if page is not None and page.text.strip()]
    if len(opened) < len(results):
        return "questions whose gold passages the corpus lacks"
    score = hit(example.golden_answers, [f"{page.title}\n{page.text}" for page in opened])
    return opened if score != 0 and example.golden_answers else "questions whose gold passages do not hold the answer"


_COMPARING = {"comparison", "bridge_comparison"}  # only all gold passages together hold the answer


def _words(text: str) -> set[str]:
    return set(_WORD.findall(text.casefold()))


def _names(text: str) -> set[str]:
    """The words with a capital or a digit in front, without case."""
    return _words(" ".join(word for word in _WORD.findall(text) if not word[0].islower())) - FUNCTION_WORDS


def _as_shown(text: str) -> str:
    return unbracketed(neutralise(" ".join(text.split())))


class Metadata(BaseModel):
    """What the metadata of a question say of the way to its answer; `#1` in a sub-question is the first answer."""

    type: str = ""
    gold_titles: list[str] = []
    decomposition: list[dict[str, str]] = []
    evidence: list[tuple[str, str, str]] = []
    reasoning: str = ""
    supporting_facts: list[tuple[str, int]] = []
    supporting_sentences: list[tuple[str, str]] = []

    @classmethod
    def of(cls, example: Example) -> Metadata:
        """What an example's metadata say; nothing where they are of another kind."""
        try:
            return cls.model_validate(example.metadata)
        except ValidationError:
            return cls()


@dataclass(frozen=True)
class Hop:
    """A step from the question to the answer, and what its gold passage says.

    sentences: as prompts show them; any of them stands for the passage, the best first. decides: whether they or the
    title hold the answer's words. query: what is searched for it, a question or the title. names: the words of the
    query that only earlier hops give. statement: what it says as a sentence of its own, where the data have one.
    """

    title: str
    sentences: tuple[str, ...]
    decides: bool
    query: str
    names: frozenset[str] = frozenset()
    statement: str = ""

    def claim(self, sentence: str) -> str:
        """What it says, without the full stop: a sentence that is understood alone, or else with the title."""
        title = _words(self.title) - FUNCTION_WORDS
        alone = self.statement or 2 * len(title & _words(sentence)) > len(title)
        return (self.statement or sentence if alone else f"{self.title}: {sentence}").removesuffix(".")

    def is_known(self, read: str) -> bool:
        """Whether its query can be known from what was read: the question, and the passages of other hops."""
        return self.title.casefold() in read.casefold() if self.query == self.title else self.names <= _words(read)


def hop(page: Passage, example: Example, *, about: str = "", golds: Sequence[str] = (), **more: Any) -> Hop:
    """The hop that a gold passage is.

    Its sentences are all with the answer, supporting ones first, for some data sets number these by another splitter;
    else a supporting one; else the one nearest to the question. A comparison has one: its answer is often a page's own
    name, which most sentences hold. about, golds: a sub-question and its answers, with two sentences. more: fields.
    """
    data, parts = Metadata.of(example), [_as_shown(part) for part in sentences(page.text) if part.strip()]
    texts = (_as_shown(text) for title, text in data.supporting_sentences if title == page.title)
    exact = [text for text in texts if text and text in _as_shown(page.text)]
    facts = exact or [parts[at] for title, at in data.supporting_facts if title == page.title and at < len(parts)]
    near = _words(about or " ".join([example.question, *data.gold_titles])) - FUNCTION_WORDS - _words(page.title)
    parts.sort(key=lambda part: -len(near & _words(part)))
    golds = golds or example.golden_answers
    both, holding = ([part for part in some if hit(golds, [part])] for some in (facts, parts))
    counting = exact if exact and not both else list(dict.fromkeys([*both, *holding])) or facts or parts
    counting = counting[: 1 if data.type in _COMPARING or not holding else 2 if about else len(counting)]
    decides = hit(example.golden_answers, [page.title, *counting]) == 1
    title = _KIND.sub("", page.title)
    return Hop(title, tuple(counting), decides, **{"query": title, **more})


def chain(example: Example, pages: Sequence[Passage]) -> list[Hop]:
    """The hops in order: sub-questions, sentences of a chain of thought, or passages, those with the answer last."""
    data, by_id = Metadata.of(example), {page.id: page for page in pages}
    parts = data.decomposition
    if parts and all(part.get("answer") and part.get("support_id") in by_id for part in parts):
        return [_sub_question(example, data, at, by_id[part["support_id"]]) for at, part in enumerate(parts)]
    hops, thoughts = list[Hop](), [thought.strip() for thought in sentences(data.reasoning)]
    for thought in thoughts:
        page = max(pages, key=lambda each: len(_words(thought) & _words(f"{each.title} {each.text}")))
        if _names(thought) <= _words(f"{example.question} {page.title} {page.text}"):
            hops.append(hop(page, example, about=thought, golds=[thought], statement=thought))
    if hops and len(hops) == len(thoughts):  # a chain with a link that no passage holds is none
        return hops
    hops = [hop(page, example) for page in pages]
    return hops if data.type in _COMPARING else sorted(hops, key=lambda each: each.decides)


def _sub_question(example: Example, data: Metadata, at: int, page: Passage) -> Hop:
    """The hop of a sub-question, with its references filled in, and a statement that only has names of the passage."""
    answers, question = [part["answer"] for part in data.decomposition], data.decomposition[at].get("question", "")
    before = {f"#{number}": answer for number, answer in enumerate(answers[:at], start=1) if f"#{number}" in question}
    for reference, answer in before.items():
        question = question.replace(reference, answer)
    mark = "" if ">>" in question else "?"  # MuSiQue writes relations as "subject >> relation"
    query = " ".join(question.replace(">>", " ").rstrip(" ?").split()) + mark
    golds, claim = [answers[at]], ""
    if len(data.evidence) == len(answers):
        subject, relation, value = data.evidence[at]
        golds, is_value = [answers[at], value], alike(answers[at]) == alike(value)
        claim = f"The {relation} of {_KIND.sub('', subject)} is {value}" if is_value else answers[at]
    claim = claim if _names(claim) <= _words(f"{query} {page.title} {page.text}") else ""
    names = (_names(query) | _words(" ".join(before.values()))) - _words(example.question) - FUNCTION_WORDS
    more = {"query": query[:1].upper() + query[1:], "names": frozenset(names), "statement": claim}
    return hop(page, example, about=query, golds=golds, **more)


def comparison(values: Sequence[str], answer: str) -> str:
    """What two values show, in a sentence: whether they are the same, or which is of an earlier year; "" if neither."""
    first, second = values
    if answer in ("yes", "no"):
        same = f"Both are {first}." if answer == "yes" else f"{first} and {second} are not the same."
        return same if (alike(first) == alike(second)) == (answer == "yes") else ""
    dated = sorted((years[0], value) for value in values if len(years := _YEAR.findall(value)) == 1)
    return f"{dated[0][1]} is earlier than {dated[1][1]}." if len({year for year, _ in dated}) == 2 else ""


@dataclass
class Lessons:
    """Rows, and why questions gave none."""

    rows: list[Demonstration] = field(default_factory=list)
    left_out: Counter[str] = field(default_factory=Counter)

    def describe(self) -> str:
        """One line with the numbers of each kind."""
        counts = Counter(str(row.extra["kind"]) for row in self.rows)
        kinds = ", ".join(f"{number} {kind}" for kind, number in sorted(counts.items()))
        reasons = ", ".join(f"{number} {why}" for why, number in sorted(self.left_out.items()))
        return f"{len(self.rows)} demonstrations ({kinds})" + (f"; left out: {reasons}" if reasons else "")


@dataclass(frozen=True)
class Completed:
    """A search that gives gold passages as they are here; where `puts`, those it misses replace its last, anywhere."""

    retriever: Retriever
    gold: Sequence[Passage]
    draw: random.Random
    puts: bool = True
    name = "completed"

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        """At least as many passages as there are gold ones, where they are put."""
        gold, results = {page.id: page for page in self.gold}, dict[str, Passage]()
        for passage in await self.retriever.retrieve(query, k=k):
            document = document_id(passage.id, gold)
            results.setdefault(document if document in gold else passage.id, gold.get(document, passage))
        missing = [page for page in self.gold if page.id not in results] if self.puts else []
        others = [each for each in results if each not in gold]
        left_out = others[::-1][: max(0, len(results) + len(missing) - max(k, len(gold)))]
        ordered = [passage for each, passage in results.items() if each not in left_out]
        for page in missing:
            ordered.insert(self.draw.randint(0, len(ordered)), page)
        return ordered


def sized(page: Passage, sentence: str, others: Iterable[str], tokens: int, draw: random.Random) -> Passage:
    """A page of at most this length: a cutting around a sentence, or the whole among others while there is room."""
    text, size = " ".join(page.text.split()), 4 * tokens
    place = max(0, text.find(sentence))
    before = max(0, place - draw.randint(0, max(0, size - len(sentence))))
    start = (text.find(" ", before, place) + 1 or place) if len(text) > size else 0
    texts = [text[start : start + size]]
    for other in others:
        if len("\n\n".join([*texts, other])) <= size:
            texts.insert(draw.choice((0, len(texts))), other)
    return page.model_copy(update={"text": "\n\n".join(texts)})


async def demonstrations(
    task: Task,
    examples: Sequence[Example],
    retriever: Retriever,
    pages: Pages,
    settings: ReaderLessons,
    *,
    on_question: Callable[[int], None] = lambda count: None,
) -> Lessons:
    """What an oracle says over the examples; the same call gives the same rows. pages: opens the gold passages."""
    lessons, answers = Lessons(), defaultdict[str, set[str]](set)
    for example in examples:  # of questions that begin alike, one's answer could be taken for the other's
        answers[example.question[:9].casefold()] |= set(example.golden_answers[:1])
    for number, example in enumerate(examples, start=1):
        gold = await gold_passages(example, pages)
        if isinstance(gold, str):
            lessons.left_out[gold] += 1
        else:
            right = " ".join(example.golden_answers).casefold()
            wrong = sorted(each for each in answers[example.question[:9].casefold()] if each.casefold() not in right)
            lesson = Lesson(task, example, gold, retriever, settings, wrong)
            rows = [await lesson.rows(name, at) for name in settings.names for at in range(settings.repeats)]
            lessons.rows += {row.messages: row for some in rows for row in some}.values()
        on_question(number)
    return lessons


_TASKS = {
    **{task_of(getattr(rar.Prompts(), name)): "query" for name in ("query", "query_answer")},
    **{task_of(getattr(rar.Prompts(), name)): "reflect" for name in ("reflect", "reflect_answer")},
    **{task_of(getattr(rar.Prompts(), name)): "refine" for name in ("refine", "refine_last", "refine_answer")},
    "Think step by step.": "draft",
    task_of(grounded.Prompts().names): "names",
    task_of(ircot.Prompts().reason): "reason",
    task_of(AgentPrompts().finish): FINISH,
    **{AgentPrompts().system(step.name): step.name for step in (DECIDE, SUMMARISE)},
    AgentPrompts().system(ANSWER.name): "linked_answer",
}
"""What tells the prompts apart, and the kind of what they ask for. Any other asks for the answer."""
_STRING = r'"(?:[^"\\]|\\.)*+"'
_ITEM = re.compile(rf"ResultItem\(link_id=(\d+), link_text={_STRING},\s*+snippet=({_STRING})\)")
_NUMBER = re.compile(r'^<passage number="(\d+)"', re.MULTILINE)
Evidence = Mapping[Hop, tuple[str, str]]  # of each hop the sentence in a prompt, and the mark that cites it
Response = tuple[str, bool]  # a reply, and whether it can be learnt from the prompt


def sources(prompt: str) -> list[tuple[str, str]]:
    """The passages that a prompt shows, or its search results with those of past actions, each behind its mark."""
    if numbers := _NUMBER.findall(prompt):
        return [(f"[{number}]", text) for number, (_, text) in zip(numbers, fenced(prompt), strict=False)]
    return [(f"[link_id={number}]", ast.literal_eval(snippet)) for number, snippet in _ITEM.findall(prompt)]


def _marks(evidence: Evidence) -> str:
    """The marks of the passages, those that hold the answer first."""
    return "".join(dict.fromkeys(evidence[each][1] for each in sorted(evidence, key=lambda each: not each.decides)))


class Oracle:
    """The model of one question, in any method. rows: what it was asked and said, each with its kind. style: how it is
    to answer; brief is a phrase with its passages. wrong: the answer of a draft in which an error is to be found.
    """

    name = "oracle"

    def __init__(self, example: Example, pages: Sequence[Passage], style: str = "phrase", wrong: str = "") -> None:
        self.rows: list[Demonstration] = []
        self.hops = chain(example, pages)
        self._example, self._style, self._wrong, self._right = example, style, wrong, example.golden_answers[0]
        data = Metadata.of(example)
        is_comparison, values = data.type in _COMPARING, [value for _, _, value in data.evidence[-2:]]
        self._compared = comparison(values, self._right) if is_comparison and len(values) == 2 else ""
        self._together = is_comparison or any(each.statement and each.query == each.title for each in self.hops)
        self._steps = {each: each.claim(each.sentences[0]) for each in self.hops}
        self._deciding = [each for each in self.hops if each.decides and not self._together]
        finals = ("Answer: {}", "So the answer is {}.") if wrong else ()
        self._errors = {final.format(wrong): final.format(self._right) for final in finals}
        steps = [self._steps[each] for each in self._deciding if wrong]
        self._errors |= {step.replace(self._right, wrong): step for step in steps}

    def _enough(self, evidence: Evidence) -> bool:
        """Whether these hold the answer: one that decides, or all for a comparison and where all are sub-questions."""
        whole = any(each.query != each.title for each in self.hops) or not self._deciding
        return len(evidence) == len(set(self.hops)) if whole else any(each in evidence for each in self._deciding)

    async def generate(self, messages: Sequence[Message], sampling: Sampling, /) -> Sequence[Reply]:
        """The one right reply. What no model could know is said, and is no row."""
        prompt = messages[0].content if messages[0].role == "system" else without_fenced(messages[-1].content)
        kind = next((name for task, name in _TASKS.items() if task in prompt), "answer")
        text, learnable = getattr(self, f"_{kind}")(messages[-1].content)
        if learnable:
            kind = "abstain" if text == ABSTENTION else self._style if kind == "answer" else kind
            taught = (*messages, Message(role="assistant", content=text))
            self.rows.append(Demonstration(question=self._example.id, messages=taught, extra={"kind": kind}))
        return [Reply(text=text, usage=Usage(calls=1))]

    def _evidence(self, prompt: str) -> dict[Hop, tuple[str, str]]:
        texts, pairs = [(mark, " ".join(text.split())) for mark, text in sources(prompt)], dict[Hop, tuple[str, str]]()
        for each in self.hops:
            places = [(sentence, mark) for sentence in each.sentences for mark, text in texts if sentence in text]
            pairs |= {each: places[0]} if places else {}
        return pairs

    def _next(self, prompt: str) -> list[Hop]:
        """The hops that are to be looked up now."""
        evidence = self._evidence(prompt)
        marks = {mark for _, mark in evidence.values()}
        read = " ".join([self._example.question, *(text for mark, text in sources(prompt) if mark in marks)])
        return [each for each in self.hops if each not in evidence and each.is_known(read)]

    def _answer(self, prompt: str) -> Response:
        evidence = self._evidence(prompt)
        if not self._enough(evidence):
            missing = f"{len(self.hops) - len(evidence)} of the passages are missing."
            return (ABSTENTION, True) if ABSTENTION in without_fenced(prompt) else (missing, False)
        if self._style == "quote":
            quotes = dict.fromkeys(f'"{sentence}" {mark}' for sentence, mark in evidence.values())
            return "\n".join(filter(None, [*quotes, self._compared, f"Answer: {self._right}"])), True
        if self._style == "prose":
            return self._prose(evidence), True
        return f"{self._right} {_marks(evidence)}" if self._style == "brief" else self._right, True

    def _prose(self, evidence: Evidence) -> str:
        """A sentence for each hop and what follows from them; or one for all, where one would need the passage."""
        claims = {each: f"{each.claim(sentence)} {mark}." for each, (sentence, mark) in evidence.items()}
        if any(text.startswith(f"{each.title}: ") for each, text in claims.items()):
            return f"The answer is {self._right} {_marks(evidence)}."
        is_said = not self._together and hit([self._right], list(claims.values())[-1:])
        final = "" if is_said else f"So the answer is {self._right}."
        return " ".join(filter(None, [*dict.fromkeys(claims.values()), self._compared, final]))

    def _names(self, prompt: str) -> Response:
        queries = list(dict.fromkeys(each.query for each in self._next(prompt)))
        return "; ".join(queries[:2]), bool(queries)

    def _reason(self, prompt: str) -> Response:
        """The next sentence: what a passage says, what is to be looked up, how the values compare, or the answer."""
        before, evidence = prompt.rpartition("\n\nReasoning:\n")[2], self._evidence(prompt)
        for each in self.hops:
            claims = {sentence: ircot.new_sentence(f"{each.claim(sentence)}.") for sentence in each.sentences}
            lookup = f"Next to look up: {each.query}"
            if any(sentence in before for sentence in claims.values()):
                continue
            if each in evidence:
                return claims[evidence[each][0]], True
            if not self._enough(evidence) and lookup not in before:
                return lookup if lookup.endswith("?") else f"{lookup}.", each in self._next(prompt)
        if self._compared and self._compared not in before:
            return self._compared, self._enough(evidence)
        return f"So the answer is {self._right}.", self._enough(evidence)

    def _draft(self, prompt: str) -> Response:
        """What RaR is to correct, perhaps with an error. It is from memory, so it cannot be learnt."""
        steps = [f"{step}." for step in dict.fromkeys(self._steps.values())]
        if self._style != "prose":
            steps.append(f"Answer: {self._right}")
        elif self._together or not hit([self._right], steps[-1:]):
            steps.append(f"So the answer is {self._right}.")
        draft = "\n\n".join(steps)
        for error, right in self._errors.items():
            draft = draft.replace(right, error)
        return draft, False

    def _corrected(self, prompt: str) -> tuple[str, str, bool]:
        """The text that a prompt is about, the same without its error, and whether the passages show that error."""
        text, evidence = prompt.rpartition("\n\nTask: ")[0].rpartition(":\n")[2], self._evidence(prompt)
        right = text
        for error, correction in self._errors.items():
            right = right.replace(error, correction)
        proved = any(each in evidence for each in self._deciding)
        if not self._deciding:
            proved = bool(evidence) and all(each in evidence or step in prompt for each, step in self._steps.items())
        return text, right, proved and right != text

    def _query(self, prompt: str) -> Response:
        right = self._corrected(prompt)[1]
        for each in reversed(self.hops):
            if self._steps[each] in right:
                return each.query, each.is_known(prompt)
        return self._example.question, False

    def _reflect(self, prompt: str) -> Response:
        (text, _, proved), evidence = self._corrected(prompt), self._evidence(prompt)
        if proved:
            return f"{self._compared} It is not {self._wrong} but {self._right} {_marks(evidence)}.".strip(), True
        hops = [each for each, step in self._steps.items() if step in text]
        return "OK", not self._wrong and bool(hops) and all(each in evidence for each in hops)

    def _refine(self, prompt: str) -> Response:
        """The text without its error, and with the marks of the passages where they are missing."""
        text, right, proved = self._corrected(prompt)
        new = right if proved else text
        for each, (_, mark) in self._evidence(prompt).items():
            if f"{self._steps[each]} [" not in new:
                new = new.replace(self._steps[each], f"{self._steps[each]} {mark}")
        return "NO CHANGE" if new == text else new, proved or right == text

    def _decide(self, prompt: str) -> Response:
        if "Search(query=" not in prompt:
            return code(Search(" ".join(self._example.question.split()), "Nothing is known yet.")), True
        if self._enough(self._evidence(prompt)):
            return code(Terminate("The results say what the answer needs.")), True
        for each in self._next(prompt):
            if f"Search(query={literal(each.query)}," not in prompt:
                return code(Search(each.query, "This is not known yet, and the answer needs it.")), True
        return code(Terminate("Nothing further is named that could be searched.")), True

    def _summarise(self, prompt: str) -> Response:
        past, _, results = prompt.partition("CURRENT_SEARCH_RESULTS")
        evidence = self._evidence(results)
        facts = " ".join(dict.fromkeys(f"{sentence} {mark}" for sentence, mark in evidence.values()))
        marks = [mark for mark, _ in sources(results) if mark in facts]
        links = tuple(int(mark.removeprefix("[link_id=").removesuffix("]")) for mark in marks)
        enough = self._enough({**self._evidence(past), **evidence})
        thoughts = "That is enough to answer." if enough else "Something is still missing."
        helping = f"Helpful: {', '.join(marks)}." if marks else "None of these results helps."
        return code(LinkSelection(facts or "Nothing here helps.", links, thoughts), [helping]), True

    def _linked_answer(self, prompt: str) -> Response:
        evidence = self._evidence(prompt)
        answer = code(GivenAnswer(self._prose(evidence), f"It stands in {_marks(evidence)}."))
        return (answer, True) if self._enough(evidence) else ("", False)

    def _finish(self, prompt: str) -> Response:
        return self._right, True


@dataclass(frozen=True)
class Lesson:
    """One question for the methods, in forms and with gaps that chance draws. wrong: answers that a draft may have."""

    task: Task
    example: Example
    pages: Sequence[Passage]
    retriever: Retriever
    settings: ReaderLessons
    wrong: Sequence[str]

    async def rows(self, name: str, repeat: int) -> list[Demonstration]:
        """What a method teaches: one row of each kind, and the Search Agent's short answer only behind a long one."""
        draw = random.Random(f"{self.settings.seed}/{self.example.id}/{name}/{repeat}")
        style = draw.choice(READ[name])
        wrong = draw.choice(self.wrong) if self.wrong and draw.random() < 0.5 else ""
        oracle, hidden = Oracle(self.example, self.pages, style, wrong), hidden_documents(self.task, self.example)
        hides = name == "grounded" and draw.random() < self.settings.unanswerable
        hidden |= {page.id for page in self.pages} if hides else set()
        method = await self._method(name, oracle, style, draw, hides=hides)
        await method.solve(self.example.question, Run(hidden=hidden))
        kinds: dict[str, dict[str, Demonstration]] = {}
        for row in oracle.rows:
            kinds.setdefault(str(row.extra["kind"]), {})[row.messages[-1].content] = row
        if name == "search_agent" and "linked_answer" not in kinds:
            kinds.pop(FINISH, None)
        rows, about = (draw.choice(list(each.values())) for each in kinds.values()), {"method": name}
        return [each.model_copy(update={"extra": {**each.extra, **about, "task": self.task.name}}) for each in rows]

    async def _method(self, name: str, oracle: Oracle, style: str, draw: random.Random, *, hides: bool) -> Method:
        """The method, over a search that chance changes; without a second round where the gold passages are put in."""
        settings, tokens, target, others = self.settings, self.settings.passage_tokens, draw.choice(self.pages), []
        puts = name in ("rag", "grounded", "search_agent") and not hides and draw.random() < settings.complete
        is_long = name != "search_agent" and draw.random() < settings.long
        if is_long:
            tokens, ids = settings.long_tokens, {page.id for page in self.pages}
            passages = await self.retriever.retrieve(target.title or self.example.question, k=20)
            others = [" ".join(each.text.split()) for each in passages if document_id(each.id, ids) not in ids]
        best = {each.title: each.sentences[0] for each in oracle.hops}
        around = {target.id: others}
        pages = [
            sized(each, best.get(_KIND.sub("", each.title), ""), around.get(each.id, ()), tokens, draw)
            for each in self.pages
        ]
        k = max(draw.randint(2, settings.most_passages), len(pages) if puts else 0)
        options: dict[str, Any] = {"model": oracle, "form": TEXT if style == "prose" else self.task.form}
        options["retriever"] = Completed(self.retriever, pages, draw, puts) if puts or is_long else self.retriever
        if name == "search_agent":
            return SearchAgent(**options, k=k, max_searches=5, samples=1, temperature=0, shots=0, checks=False)
        options["passage_tokens"] = tokens
        if name in ("rar", "ircot"):
            return rar.RaR(**options) if name == "rar" else ircot.IRCoT(**options, k=k, max_passages=max(k, 12))
        options |= {"k": k, "quote": style == "quote"}
        if name == "rag":
            return RAG(**options)
        options |= {"brief": style == "brief", "abstain": hides or style == "brief" or draw.random() < 0.5}
        return grounded.Grounded(**options, max_rounds=0 if puts else 2)
