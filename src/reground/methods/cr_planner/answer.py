"""How CR-Planner ends (section 2.2, termination): the complete answer of a step, a forced one, or a ranking.

`complete_answer` detects whether a step holds the answer; it never raises, whatever the text. In doubt the step holds
none: one step more costs a few tokens, but ending too early costs the answer.
"""

from __future__ import annotations

import ast
import builtins
import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Literal

from reground.core.answers import PHRASE, Answer, AnswerForm, Thought
from reground.core.errors import ContextLengthExceeded
from reground.core.language import Sampling
from reground.methods.cr_planner.states import search_query
from reground.methods.shared.evidence import Evidence, citation, find
from reground.methods.shared.steps import split_answer
from reground.text.queries import clean_query

if TYPE_CHECKING:
    from collections.abc import Sequence

    from reground.core.evidence import Passage
    from reground.core.run import Run
    from reground.methods.cr_planner import CRPlanner
    from reground.methods.cr_planner.states import State

QUERY = replace(PHRASE, name="query")
"""The form of the last step for rankings: the query of the last retrieval."""

_STATED = re.compile(
    r"(?:^|[.!?;)\]][\"'”*_]*+[ \t\n])[ \t>*_#-]*+(?:(?:so|thus|hence|therefore|finally),?[ ]+)?"
    r"(?:(?:the|my|our)[ ]+)?(?:(?:final|correct)[ ]+)?(?P<answer>answer\s*+(?:is)?+\s*+[*_]*+\s*+[:：][\s*_]*+)",
    re.IGNORECASE | re.MULTILINE,
)
"""An answer follows a label that begins a sentence; "to find the answer: ..." only mentions one."""

_LABEL = re.compile(r"(?i)^[\s>*_#-]*+(?:final\s++)?+answer\s*+(?:is)?+\s*+[*_]*+\s*+[:：][\s*_]*+")
_PLACEHOLDER = re.compile(
    r"\A\W*+(?:(?i:it is|it's|this is|still) )*(?:"
    r"(?i:unknown|unclear|undetermined|tbd|n/a|insufficient)\b(?! [A-Z])"
    r"|(?i:not|cannot|can't|can not) (?i:yet )?(?i:be )?"
    r"(?i:known|clear|given|stated|found|determined|available|specified|certain|answered|enough|sufficient)\b(?! [A-Z])"
    r"|(?i:to be) (?:determined|found|decided|completed)\b|I (?:do not|don't|cannot|can't) [a-z])"
    r"|\A\W*[\[<]\s*+[a-z][^\]>\d]*+[\]>]\W*+$"
)
"""Written in place of an unknown answer. Names such as "Unknown Pleasures" do not match."""

_SEARCH = "find|look|search|identify|determine|know|check|compare|retrieve|verify"
_VERB = _SEARCH + "|add|multiply|subtract|divide|calculate|compute|solve|answer|work|figure|decide|get|consider"
_LACKING = re.compile(rf"\A\W*+(?:[Ww]e|I) (?:(?:still|first|now|also) )*(?:need|have|must)(?: to)? (?:{_SEARCH})\b")
_PLAN = re.compile(
    rf"\A\W*+(?:[Tt]o (?:{_VERB})\b[^.]*,"
    r"|[Ll]et(?:['’]s| us| me) [a-z]"
    r"|(?:[Ww]e|I|[Yy]ou) (?:(?:still|first|now|also|then) )*(?:need|have|must|should|can|will|could|would)\b(?! [A-Z])"
    rf"|(?i:first|next|then|now),? (?:we|you|I|{_VERB})\b"
    rf"|(?i:{_VERB}) (?:the|a|an|out|up|for|both|each|how|which|what|whether|at|if|all|\d))"
)
"""A plan for the next step. The words are in lower case, which tells them from titles such as "First Blood"."""

_ARTICLE = re.compile(r"\A\W*+A (?!and\b|or\b)[a-z]")
_NUMBERED = re.compile(r"^[^\w\n]*+(?:step\s*+)?+\d++\s*+[.:)]", re.IGNORECASE | re.MULTILINE)
_OPENING = re.compile(r"\A[ \t]*+```[ \t]*+(?:python3?|py)?+[ \t]*+\Z", re.IGNORECASE)

_LONGEST = 50_000
"""Maximum characters of a program. A longer one is not an answer, and parsing it would take seconds."""


def complete_answer(step: str, form: AnswerForm) -> str:
    """The answer that a step holds, as a whole response; empty if it holds none.

    A program is complete if its code block is closed, parses, does something and defines every name it uses. Other
    answers follow "Answer:" and are neither a plan nor a placeholder. Where the thoughts are the answer (prose, plans),
    the label begins a line and the response is the text after it.
    """
    if form.draft_is_query:
        return step if any(_is_program(body, form) for body in _closed_blocks(step)) else ""
    if not form.final_pass:
        statement = _LABEL.sub("", split_answer(step, form)[1], count=1).strip()
        return statement if _settled(statement, form) else ""
    found = list(_STATED.finditer(step))
    tail = step[found[-1].start("answer") :] if found else ""
    short = form.extract(tail)
    if not short or not _settled(_LABEL.sub("", tail, count=1).strip(), form):
        return ""
    return step if form.extract(step) == short else tail


def _closed_blocks(text: str) -> Iterator[str]:
    """The bodies of closed code blocks that are marked as Python or unmarked. Each fence is a line of its own."""
    body: list[str] | None = None
    for line in text.splitlines():
        if body is None:
            body = [] if _OPENING.match(line) else None
        elif line.strip(" \t") == "```":
            yield "\n".join([*body, ""])
            body = None
        else:
            body.append(line)


def _settled(statement: str, form: AnswerForm) -> bool:
    """Whether the text after the label is an answer, not a plan, a placeholder or a question."""
    line = statement.partition("\n")[0]
    if not any(char.isalnum() for char in statement) or _PLACEHOLDER.match(line) or _LACKING.match(line):
        return False
    if form.name == "plan":
        return bool(_NUMBERED.search(statement))
    if form.name == "choice" and _ARTICLE.match(line):
        return False
    if not form.final_pass or form.name == QUERY.name:
        return True
    return not _PLAN.match(line) and not line.rstrip("*_ ").endswith("?")


def _is_program(body: str, form: AnswerForm) -> bool:
    if len(body) > _LONGEST:
        return False
    try:
        with warnings.catch_warnings(action="ignore"):
            tree = ast.parse(body)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    functions = [node for node in tree.body if isinstance(node, ast.FunctionDef)]
    if any(all(map(_does_nothing, function.body)) for function in functions) or _lacking(tree):
        return False
    if form.name == "pal":
        return any(function.name == "solution" for function in functions)
    return not all(_does_nothing(node) or isinstance(node, ast.Import | ast.ImportFrom) for node in tree.body)


def _does_nothing(node: ast.stmt) -> bool:
    """Whether a statement is `pass`, a docstring, `...` or another bare value, as in a stub."""
    acting = ast.Call | ast.Yield | ast.YieldFrom | ast.Await
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and not isinstance(node.value, acting))


def _lacking(tree: ast.Module) -> set[str]:
    """The names that are used but never defined, as in a part of a longer program. Annotations do not count."""
    nodes = list(ast.walk(tree))
    made = {name for node in nodes for name in _made(node)}
    if "*" in made:
        return set()
    notes = [getattr(node, field, None) for node in nodes for field in ("annotation", "returns")]
    unread = {id(inner) for note in notes if isinstance(note, ast.AST) for inner in ast.walk(note)}
    used = {node.id for node in nodes if isinstance(node, ast.Name) and id(node) not in unread}
    return used - made - set(dir(builtins)) - {"__file__"}


def _made(node: ast.AST) -> Iterator[str]:
    """The names that a node defines, anywhere in the program; "*" stands for a module's every name."""
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        yield node.id
    elif isinstance(node, ast.arg):
        yield node.arg
    elif isinstance(node, ast.alias):
        yield (node.asname or node.name).partition(".")[0]
    else:
        names = [getattr(node, field, None) for field in ("name", "rest")]  # functions, classes, handlers, patterns
        yield from (name for name in names if isinstance(name, str))


async def forced(planner: CRPlanner, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
    """Conclude with one more call (section 2.2, termination).

    The last step is the answer if the reply is empty, or if the prompt is too long even without documents.
    """
    sampling = Sampling(temperature=temperature, max_tokens=planner.max_tokens)
    try:
        text = await _ask(planner, planner.last_call, state, run, sampling)
    except ContextLengthExceeded as error:
        if not state.rationales:
            raise
        run.note("context full", step=planner.last_call, why=str(error), kept="the last step")
        return so_far(planner, state, run)
    if not text.strip():
        run.note("answer empty", kept="the last step")
        return so_far(planner, state, run)
    return answer_of(planner, state, text, run)


async def ranking(planner: CRPlanner, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
    """The last retrieval (section 3.4), with the query that the reasoning ended in, or the one just chosen.

    Without either, the generator writes the query from all observations. If a query finds nothing, the question is
    searched.
    """
    query = planner.answer_form.extract(planner.complete(state)) or (state.queries[-1] if state.searching else "")
    if not query:
        sampling = Sampling(temperature=temperature, max_tokens=planner.query_tokens)
        try:
            query = clean_query(await _ask(planner, "search", state, run, sampling), fallback=state.question)
        except ContextLengthExceeded as error:
            query = search_query(state)
            run.note("context full", step="search", why=str(error), kept=query)
    found: Sequence[Passage] = ()
    for attempt in dict.fromkeys((query, state.question)):
        if planner.retriever is not None and not found:
            found = await find(run, planner.retriever, attempt, k=planner.ranked)
    return _listed(found, state)


async def _ask(
    planner: CRPlanner, name: Literal["answer", "documents", "search"], state: State, run: Run, sampling: Sampling
) -> str:
    """A concluding call. While its prompt is too long for the model, documents are halved."""
    while True:
        prompt = planner.prompt(name, state)
        try:
            return await run.ask(planner.model, prompt, name=name, sampling=sampling)
        except ContextLengthExceeded as error:
            while planner.passage_tokens > 1 and planner.prompt(name, state) == prompt:
                planner = replace(planner, passage_tokens=planner.passage_tokens // 2)
            if planner.prompt(name, state) == prompt:
                raise
            run.note("context full", step=name, why=str(error), passage_tokens=planner.passage_tokens)


def so_far(planner: CRPlanner, state: State, run: Run) -> Answer:
    """The answer if everything ended here: the last step, or the documents read."""
    if planner.ranks:
        return _listed(state.passages, state)
    return answer_of(planner, state, "".join(state.rationales[-1:]), run)


def answer_of(planner: CRPlanner, state: State, text: str, run: Run) -> Answer:
    """A text as the answer, with its citations, and the reasoning as steps."""
    evidence = Evidence()
    evidence.add(state.passages)
    shown = range(1, len(evidence.passages) + 1)
    return evidence.answer(text, run, planner.form, shown=shown, steps=thoughts(state))


def _listed(found: Sequence[Passage], state: State) -> Answer:
    """Documents as an answer that cites them: one per line, in order."""
    lines = [f"{place}. {passage.title or passage.id}" for place, passage in enumerate(found, start=1)]
    citations = tuple(citation(place, passage) for place, passage in enumerate(found, start=1))
    return Answer(text="\n".join(lines), citations=citations, shown=citations, steps=thoughts(state))


def thoughts(state: State) -> tuple[Thought, ...]:
    """The rationales, each with its last query and the documents found before the next rationale.

    Anything before the first rationale belongs to the first.
    """
    steps = [Thought(text="")]
    documents = 0
    for seen in state.observations:
        change: dict[str, object] = {}
        if seen.stage == "RATIONALE":
            if steps[-1].text:
                steps.append(Thought(text=""))
            change = {"text": seen.text}
        elif seen.stage == "QUERY":
            change = {"query": seen.text}
        elif seen.passage is not None:
            documents += 1
            change = {"citations": (*steps[-1].citations, documents)}
        steps[-1] = steps[-1].model_copy(update=change)
    return tuple(step for step in steps if step.text)
