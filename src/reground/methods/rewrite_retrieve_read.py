"""A rewriter, a retriever and a reader in a row.

Ma et al. 2023, "Query Rewriting for Retrieval-Augmented Large Language Models", sections 3 and 4; prompts after
table 1, part by part. The paper's rows are `mode` "reader", "retrieve" and "rewrite", the last with or without a
separate rewriter.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain, zip_longest
from typing import ClassVar, Literal

from reground.core.answers import Answer, Demonstration, Thought
from reground.core.concurrency import gather
from reground.core.errors import IndexRefused, RetrievalError
from reground.core.evidence import Pages, Passage, Retriever
from reground.core.language import LanguageModel, Reply, Sampling
from reground.core.run import Run
from reground.methods.baselines import DOCUMENTS
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import CAVEAT, Templates, ending, examples_of, general, render, response
from reground.methods.shared.settings import NotNegative, Positive, Settings, require
from reground.text.excerpts import count_words, excerpt, first_words
from reground.text.queries import parse_queries, says_something

OPENED = "page"
"""The name of the steps that open a page; their query is a passage's id."""
_ONE_PASSAGE = "passage " * 60


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """One prompt a call: the task, the worked examples, and then the question (table 1).

    rewrite, rewrite_choice (for multiple choice): places {closing} (the stop marker), {examples} and {question}.
    trained: the input of a trained rewriter: {question}. read: {closing}, {examples}, {passages}, {question} and
    {form}, how the answer is stated and cited. answer, where nothing was retrieved: the same without {passages}.
    """

    rewrite: str = (
        "A question is to be answered with the help of a search engine. Think step by step, in one or two sentences, "
        "which facts the answer needs. Then write one line that begins with 'Queries:' and holds what to search for: "
        "one short query for each fact, with the names that matter, in the language of the question, and a ';' "
        "between two queries. If nothing has to be looked up, write 'Queries: none'. {closing}\n\n"
        "{examples}\n\nQuestion: {question}"
    )
    rewrite_choice: str = (
        "A question with options is to be answered with the help of a search engine. Write a better search query than "
        "the question is itself: short, with the words that a page about the matter would have, in the language of "
        "the question. Write it in one line that begins with 'Query:', and nothing else. {closing}\n\n"
        "{examples}\n\nQuestion: {question}"
    )
    trained: str = "rewrite a better search query: {question}"
    read: str = (
        "Answer the question like the examples, with the help of the passages. "
        + CAVEAT
        + " {closing}\n\n{examples}\n\n{passages}\n\nQuestion: {question}\n\nAnswer this question now. {form}"
    )
    answer: str = (
        "Answer the question like the examples. {closing}\n\n{examples}\n\nQuestion: {question}\n\n"
        "Answer this question now. {form}"
    )


@dataclass(frozen=True, kw_only=True)
class RewriteRetrieveRead(Settings):
    """Rewrite-Retrieve-Read: write better search queries first, then retrieve with them, then read and answer.

    model: the reader, and the rewriter if no other is given. retriever: the index to search; may be left out in mode
        "reader".
    rewriter: a model that only rewrites, such as a trained one (`--rewriter`); used only in mode "rewrite".
    prompts: the templates.
    mode: "reader" answers without retrieval, "retrieve" uses the question as the query, "rewrite" writes queries
        first.
    rewriter_style: "prompted" gives instruction and examples; "trained" gives the bare line that a trained rewriter
        knows, with queries joined by ";"; "auto" is trained for a separate rewriter and prompted for the reader.
    demonstrations: worked examples for the reader, never taken from the evaluated data; None uses general examples
        that suit the form. shots: number of examples shown, the first ones; the paper has 1 to 3.
    rewrite_demonstrations: worked examples for a prompted rewriter, with the queries as the answer, "none" for no
        query; None uses the built-in ones.
    max_queries: maximum number of queries taken from a rewriting. k: passages per query, as in the paper; more
        queries then read more. total: passages of all queries together instead, shared evenly; None uses k per query.
    content: the paper's two retrievals (section 3.3). "passages": the passages found, as snippets on a page of
        results. "bm25": the whole document of each is opened and cut to the pieces that BM25 ranks highest for the
        queries which found it, page_words words at most, 800 in the official code.
    word_budget: maximum words of all passages together; the first found are kept, and the last one is cut.
    stop: the marker that ends queries and short answers (phrase, choice, number); "" for none. Other forms ignore it,
        because there it may be bold type or a power.
    temperature, rewrite_temperature: temperatures of reader and rewriter; 0 is greedy.
    logprobs: asks for the log-probabilities of the rewriting, which training needs; a model without them still runs.
    max_tokens: maximum tokens of the answer. rewrite_tokens: maximum tokens of a prompted rewriting with its reasoning.
    query_tokens: maximum tokens of a trained rewriter's queries; 50 in the official code.
    """

    retriever: Retriever | None = None
    rewriter: LanguageModel | None = None
    prompts: Prompts = Prompts()
    mode: Literal["reader", "retrieve", "rewrite"] = "rewrite"
    rewriter_style: Literal["auto", "prompted", "trained"] = "auto"
    demonstrations: tuple[Demonstration, ...] | None = None
    shots: NotNegative = 3
    rewrite_demonstrations: tuple[Demonstration, ...] | None = None
    max_queries: Positive = 4
    k: int = 5
    total: Positive | None = None
    content: Literal["passages", "bm25"] = "passages"
    page_words: Positive = 800
    word_budget: Positive = 1600
    stop: str = "**"
    rewrite_temperature: float = 0.0
    logprobs: bool = True
    rewrite_tokens: int = 160
    query_tokens: int = 50

    PRESETS: ClassVar = {"reader": {"mode": "reader"}, "retrieve": {"mode": "retrieve"}, "pages": {"content": "bm25"}}

    def __post_init__(self) -> None:
        super().__post_init__()
        require(
            self.mode == "reader" or self.retriever is not None, f"mode {self.mode} needs documents: give --corpus DIR"
        )
        require(not says_something(self.stop), "the stop marker must be without letters and digits")

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        queries = await self._queries(question, run)  # rewrite (section 3.1)
        results = await self._retrieve(queries, run)  # retrieve (section 3.3)
        evidence = Evidence()  # read
        markers = evidence.add(self._content(queries, results))
        template, parts = self._parts(question, reads=bool(markers))
        prompt = render(template, **parts, passages="")
        if markers:  # as many passages as the run has room for
            prompt = evidence.fill(template, parts, markers, run, tokens=2 * self.word_budget)
        stop = self._stop()
        sampling = self.sampling(stop=(stop,) if stop else ())
        run.answer_from = None if stop else evidence.passages
        reply = await self._reply(self.model, prompt, run, name="answer", sampling=sampling)
        text = before(reply.text, stop).strip()
        if self._lacks(text) and stop:  # "She sold **42** apples."
            text = reply.text.replace(stop, " ").strip()
        thoughts = []
        for query, pages in zip(queries, results, strict=True) if self.mode == "rewrite" else ():
            ids = {page.id for page in pages}
            read = tuple(marker for marker in evidence.in_prompt if evidence.passages[marker - 1].id in ids)
            thoughts.append(Thought(text=f"Searched for: {query}", query=query, citations=read))
        return run.propose(evidence.answer(text, run, self.form, sources=evidence.in_prompt, steps=thoughts))

    async def _queries(self, question: str, run: Run) -> list[str]:
        match self.mode:
            case "reader":
                return []
            case "retrieve":
                return [question]
            case "rewrite":
                template, parts = self._parts(question, reads=True)
                reading = render(template, **parts, passages=_ONE_PASSAGE)
                with run.keeping(lambda: reading, reply=self.form.usual):
                    return await self._rewrite(question, run)
                run.note("not rewritten", why="there is room for the reader alone: the question is the query")
                return [question]

    async def _rewrite(self, question: str, run: Run) -> list[str]:
        """The queries; empty if none is needed."""
        rewriter = self.model if self.rewriter is None else self.rewriter
        style = self.rewriter_style
        if style == "auto":
            style = "prompted" if self.rewriter is None else "trained"
        prompt, stop, tokens = render(self.prompts.trained, question=question), "", self.query_tokens
        if style == "prompted":
            prompt, stop, tokens = self._instruction(question), self.stop, self.rewrite_tokens
        sampling = Sampling(
            temperature=self.rewrite_temperature,
            max_tokens=tokens,
            stop=(stop,) if stop else (),
            logprobs=self.logprobs,
        )
        reply = await self._reply(rewriter, prompt, run, name="rewrite", sampling=sampling)
        queries = parse_queries(before(reply.text, self.stop), most=self.max_queries)
        run.note("rewritten", queries=list(queries), style=style, by=rewriter.name)
        if not queries:
            run.note("nothing to look up", why="the rewriter gave no query: the reader answers alone", reply=reply.text)
        return queries

    def _instruction(self, question: str) -> str:
        """The prompt of a rewriter that was not trained."""
        name, label, template = "open", "Queries", self.prompts.rewrite
        if self.form.name == "choice":
            name, label, template = "choice", "Query", self.prompts.rewrite_choice
        own = self.rewrite_demonstrations
        shots = [
            (each.question, f"{each.reasoning}\n{label}: {each.answer}")
            for each in (examples_of("rewrites")[name] if own is None else own)
        ]
        return render(template, closing=_closing(self.stop), examples=_examples(shots, self.stop), question=question)

    async def _retrieve(self, queries: Sequence[str], run: Run) -> list[list[Passage]]:
        """The passages that each query finds, all concurrently; with "bm25" their pages."""
        if self.retriever is None or not queries:
            return []
        k = self.k if self.total is None else self.total  # any one query may have to fill the total
        spans = [run.span("query", query=query) for query in queries]
        results = await gather(
            *(find(span, self.retriever, query, k=k) for span, query in zip(spans, queries, strict=True))
        )
        return results if self.content == "passages" else await open_pages(run, self.retriever, results)

    def _content(self, queries: Sequence[str], results: Sequence[Sequence[Passage]]) -> list[Passage]:
        """The reader's passages: every query's first, then every query's second, within the limits."""
        passages: list[Passage] = []
        room = self.word_budget
        for passage in interleaved(results)[: self.total]:
            text = passage.text
            if self.content == "bm25":
                terms = (q for q, pages in zip(queries, results, strict=True) if any(p.id == passage.id for p in pages))
                text = excerpt(text, " ".join(terms), words=self.page_words)
            text = first_words(text, room)
            if text.strip():
                passages.append(passage.model_copy(update={"text": text}))
                room -= count_words(text)
        return passages

    def _parts(self, question: str, *, reads: bool) -> tuple[str, dict[str, str]]:
        """The reader's template, with or without passages, and its values."""
        stop = self._stop()
        own = general(self.form, markers=reads) if self.demonstrations is None else self.demonstrations
        shots = [(each.question, response(each, self.form, reasons=False)) for each in own[: self.shots]]
        parts = {"closing": _closing(stop), "examples": _examples(shots, stop), "question": question}
        form = ending(self.form) if reads else self.form.short
        return self.prompts.read if reads else self.prompts.answer, parts | {"form": form}

    def _stop(self) -> str:
        """The reader's stop marker; in prose it may be bold type and in a program a power."""
        return self.stop if self.form.final_pass and not self.form.draft_is_query else ""

    async def _reply(self, model: LanguageModel, prompt: str, run: Run, *, name: str, sampling: Sampling) -> Reply:
        """The model's reply.

        Where the stop marker begins what the reply was to say, as bold type does, nothing is said yet. It is then
        requested again without the marker.
        """
        (reply,) = await run.generate(model, prompt, name=name, sampling=sampling, logprobs="welcome")
        is_complete = is_said(reply.text) and not (name == "answer" and self._lacks(reply.text))
        if is_complete or not sampling.stop or reply.finish_reason != "stop":
            return reply
        plain = sampling.model_copy(update={"stop": ()})
        with run.optional():
            (reply,) = await run.generate(model, prompt, name=name, sampling=plain, logprobs="welcome")
            run.note("asked again", of=name, why="nothing was said yet: without the stop marker this time")
        return reply

    def _lacks(self, text: str) -> bool:
        """Whether an answer that is a number or a letter is not in the text."""
        return self.form.name in {"number", "choice"} and not self.form.extract(text)

    def sizes(self) -> Sequence[RewriteRetrieveRead]:
        """More passages, then the examples too."""
        sized = {k: replace(self, k=k, total=None if self.total is None else k) for k in DOCUMENTS}
        return [*(replace(sized[k], shots=0) for k in DOCUMENTS[:5]), *(sized[k] for k in DOCUMENTS[2:])]


def _examples(pairs: Sequence[tuple[str, str]], stop: str) -> str:
    end = f" {stop}" if stop else ""
    return "\n\n".join(f"Question: {question}\n{response.strip()}{end}" for question, response in pairs)


def _closing(stop: str) -> str:
    return f"End your reply with {stop} and write nothing behind it." if stop else "Write nothing else."


def interleaved(lists: Sequence[Sequence[Passage]]) -> list[Passage]:
    """The first of each list, the second of each, and so on; each passage once, where it stands first."""
    once: dict[str, Passage] = {}
    for passage in chain.from_iterable(zip_longest(*lists)):
        if passage is not None:
            once.setdefault(passage.id, passage)
    return list(once.values())


@dataclass(frozen=True)
class _Opener:
    """A retriever that takes a passage's id as the query and returns the passage's page."""

    pages: Pages

    @property
    def name(self) -> str:
        return f"{self.pages.name} pages"

    async def retrieve(self, query: str, /, *, k: int) -> Sequence[Passage]:
        page = await self.pages.page(query)
        return [] if page is None else [page]


async def open_pages(run: Run, retriever: Retriever, results: Sequence[Sequence[Passage]]) -> list[list[Passage]]:
    """Replace each passage by its page. Every page is opened once.

    If a page cannot be opened, its passage stays, and a note says so.
    """
    if not isinstance(retriever, Pages):
        run.note("no pages", why=f"{retriever.name} gives passages alone: each is taken for a page")
        return [list(passages) for passages in results]
    pages: dict[str, Passage] = {}
    for passage in interleaved(results):
        page = next((page for page in pages.values() if page.id == passage.page_id), None)
        try:
            opened = [page] if page else await run.retrieve(_Opener(retriever), passage.id, k=1, name=OPENED)
        except IndexRefused:
            raise
        except RetrievalError as error:
            run.note("page not opened", passage=passage.id, why=str(error))
            opened = []
        pages[passage.id] = opened[0] if opened else passage
    return [[pages[passage.id] for passage in passages] for passages in results]


_BOLD = re.compile(r"^[^\S\n]*+\*\*([^*\n]{1,40}?)(?:[:：]\*\*|\*\*\s*+[:：])", re.MULTILINE)
"""A label in bold type."""
_OPEN = re.compile(
    r"(?:[:：]|[$€£¥]|\b(?:is|are|was|were)"
    r"|(?<=\w\s)(?-i:be|been|a|an|the|of|by|in|on|at|to|for|from|with|than|as|and|or|about|called|named))"
    r"[\s_\"'“($€£¥]{0,20}+\Z",
    re.IGNORECASE,
)
"""The end of a text that was about to say something: a label, "the answer is", or "it was built by"; not "Serie A"."""


def before(text: str, stop: str) -> str:
    """The text before the stop marker. A marker before which nothing is said yet is removed, as in **bold** type."""
    if not stop:
        return text
    plain = _BOLD.sub(r"\1:", text)
    head = plain.partition(stop)[0]
    return head if is_said(head) else plain.replace(stop, " ")


def is_said(text: str) -> bool:
    """Whether the text says something and does not end in a label, such as "Answer:", or in "the answer is the"."""
    return says_something(text) and not _OPEN.search(text)
