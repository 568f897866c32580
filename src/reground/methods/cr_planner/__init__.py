"""Planning by critics.

"Can We Further Elicit Reasoning in LLMs? Critic-Guided Planning with Retrieval-Augmentation for Solving Challenging
Tasks", sections 2.1 and 2.2, appendices A.1 and C. Solving is a walk through the decision process of `states.py`. In
every state, that state's critic chooses the action with the highest expected reward (equations 1 and 2). The walk ends
when a rationale holds the complete answer, or after T observations, when the answer is forced. The paper gives no T.
Its critics are trained; here the default critic is a prompted model.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated, ClassVar, Literal, NamedTuple

from pydantic import JsonValue

from reground.core.answers import PHRASE, Answer, AnswerForm, Citation, Thought
from reground.core.code_blocks import code_blocks, parsed
from reground.core.errors import ContextLengthExceeded
from reground.core.evidence import Passage, Retriever
from reground.core.language import Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Candidate, Pair
from reground.core.untrusted import clip, fence
from reground.critics import Critics, Kind, load
from reground.critics.simple import SENTENCES
from reground.methods.cr_planner.states import (
    GOALS,
    NOTHING,
    Goal,
    Mask,
    Observation,
    Outcome,
    State,
    context,
    history,
    kind_of,
    legal,
    search_query,
)
from reground.methods.shared.evidence import Evidence, find
from reground.methods.shared.prompts import CAVEAT, Templates, cite, ending, render
from reground.methods.shared.settings import Positive, Settings, require
from reground.methods.shared.steps import alike, split_answer
from reground.text.queries import clean_query

_FALLBACK = 64
"""Tokens of the last rationale that are used as the query if the generator wrote none."""
END = "[END]"
"""Ends a step; generation stops there."""

TaskKind = Literal["qa", "maths", "code", "retrieval"]
_BY_FORM: dict[str, TaskKind] = {"number": "maths", "pal": "maths", "program": "code"}


@dataclass(frozen=True, kw_only=True)
class Prompts(Templates):
    """The templates of the generator's calls (reworded from appendix A.1), and what each kind of task is told.

    reason: places {task}, {question}, {history} (all observations), {last} (how the last step looks).
    query: {question}, {step} (the last rationale), {asked} (the queries so far), {guide}.
    answer, if no step holds the complete answer: {task}, {question}, {history} and {form}, the form of the answer.
    documents, to answer from what was retrieved alone: {passages}, {question} and {form}.
    search, for rankings if the last step is not a query: {task}, {question}, {history}.
    qa, maths, code, retrieval: how to work on such a task. The same with _query: how a good query looks there.
    """

    reason: str = (
        "{task} " + CAVEAT + "\n\nQuestion:\n{question}\n\nWork so far:\n{history}\n\n"
        "Write only the next step of the reasoning, and " + END + " behind it. Do not repeat what is written. "
        "Use the passages where they help. Only if the work so far settles everything, make it the last step: {last}"
    )
    query: str = (
        "A step of reasoning is to be checked or taken further with documents.\n\nQuestion:\n{question}\n\n"
        "Step:\n{step}\n\nQueries so far:\n{asked}\n\n"
        "Write a search query for what is missing. {guide} Write only the query, on one line."
    )
    answer: str = (
        "{task} " + CAVEAT + "\n\nWork so far:\n{history}\n\nQuestion:\n{question}\n\nGive the final answer now. {form}"
    )
    documents: str = "{passages}\n\n" + CAVEAT + "\n\nQuestion:\n{question}\n\n{form}"
    search: str = (
        "{task} " + CAVEAT + "\n\nQuestion:\n{question}\n\nWork so far:\n{history}\n\n"
        "Write the search query that finds the documents asked for. Write only the query, on one line."
    )
    qa: str = (
        "Answer the question in single steps: say what is asked, find out each fact that it takes, put the facts "
        "together, and conclude."
    )
    maths: str = (
        "Solve the problem in single steps: say in plain words what is asked, name the theorem or the formula that "
        "applies, work it out, and conclude."
    )
    code: str = (
        "Solve the programming problem in single steps: say in plain words what is asked, think of a solution in plain "
        "words, write it as pseudo-code in plain text, and only then write the program. The standard library is "
        "allowed."
    )
    retrieval: str = (
        "Find the documents that help with the question, in single steps: say in plain words what is asked, what "
        "knowledge explains it, and what a helpful document would be about."
    )
    qa_query: str = "Use the names and the words that such a document would use."
    maths_query: str = (
        "Make it general: name the theorem, the method or the topic, without the numbers and names of the problem."
    )
    code_query: str = (
        "Make it general: name the algorithm, the data structure or the topic, without the numbers and names of the "
        "problem."
    )
    retrieval_query: str = "Use the technical words that a helpful document would use, not those of the question."


@dataclass(frozen=True, kw_only=True)
class CRPlanner(Settings):
    """CR-Planner: critics choose whether to reason, write a query or retrieve, and the best of several ways to do it.

    model, retriever: the generator, and the index to search. form: the form of the answer; it selects the prompts for
    questions, maths or code. prompts: the templates.
    critic: name of the critic that chooses: prompted (prompted:pointwise, or prompted:rank, which is cheaper),
    trained:FOLDER, random, first, fixed, or another file of reground/critics. In the application, prompted:openai/large
    asks a model other than the generator. doc=trained:FOLDER,subgoal=first names critics by kind; the others are
    prompted. critics: the four critics as objects, instead of a name.
    candidates: number of rationales and queries sampled, and of documents offered, for each choice; 3 in the paper.
    With 1, only sub-goals are chosen. temperature: sampling temperature of the candidates; 0.7 in the paper.
    max_steps: T, the maximum number of observations; a sub-goal and its execution are two.
    retrieval: false leaves reasoning as the only sub-goal (section 4.3).
    mask: useful leaves out sub-goals that cannot help; paper always allows all of them (table 6).
    answer: form, or ranking for retrieval tasks: the answer is then the `ranked` documents of a last retrieval.
    documents: number of documents offered for each choice; None is as many as other candidates. A trained critic judges
    more at little cost.
    conclude: plan ends with the rationale that states the complete answer, and takes it as it is, as in the paper.
    documents ends after max_steps and then asks for an answer from the chosen documents alone: a small model states an
    answer in its first rationale, in long sentences, and repeats what is wrong in it. Rankings conclude with a
    retrieval.
    ranked: number of documents in a ranking; 10 for nDCG@10 (section 3.4).
    passage_tokens: maximum length of a document in tokens.
    step_tokens: maximum tokens of a rationale; `max_tokens` applies where the form is a program.
    query_tokens: maximum tokens of a query. max_tokens: maximum tokens of the forced answer.
    """

    retriever: Retriever | None = None
    prompts: Prompts = field(default_factory=Prompts)
    critic: str = "prompted"
    critics: Critics | None = None
    candidates: Positive = 3
    temperature: float = 0.7
    max_steps: Annotated[int, 2] = 16  # a sub-goal and its execution
    retrieval: bool = True
    mask: Mask = "useful"
    answer: Literal["form", "ranking"] = "form"
    documents: Positive | None = None
    conclude: Literal["plan", "documents"] = "plan"
    ranked: Positive = 10
    passage_tokens: int = 500
    step_tokens: int = 256
    query_tokens: int = 48

    PRESETS: ClassVar = {"ranking": {"answer": "ranking"}, "no_retrieval": {"retrieval": False}}
    LADDER = tuple(  # six observations are one of each sub-goal with its execution
        {"candidates": candidates, "max_steps": steps}
        for candidates, steps in ((1, 6), (2, 6), (3, 6), (3, 8), (3, 10), (3, 12), (3, 16))
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        require(self.retrieval or not self.ranks, "answer=ranking needs retrieval")
        has_documents = self.retriever is not None or not self.retrieval
        require(has_documents, "the method cr_planner needs documents: give --corpus DIR, or set retrieval=false")
        _ = self.judges  # refuses an unknown critic before any question is asked

    async def solve(self, question: str, run: Run, /) -> Answer:
        """Answer the question."""
        return run.propose(await self.finish(await self.walk(State(question), run), run))

    async def walk(self, state: State, run: Run) -> State:
        """Choose sub-goals and execute them until the end. Returns the last state."""
        barren: frozenset[Goal] = frozenset()
        reply = self.query_tokens if self.ranks else self.form.usual
        with run.keeping(lambda: self.prompt(self.last_call, state), reply=reply):
            while not self.terminal(state):
                with run.span("step", number=len(state.observations) + 1) as step:
                    offered = await self.expand(state, step, without=barren)
                    following = await self.choose(state, offered, step)
                if following is not None:
                    state, barren = following, barren if state.goal is None else frozenset()
                elif state.goal is not None and offered:  # all repeat earlier steps: another sub-goal is chosen
                    run.note("sub-goal left", goal=state.goal, why="none of its candidates can go on")
                    barren |= {state.goal}
                    state = State(state.question, state.observations[:-1])
                else:
                    what = "no sub-goal is left" if state.goal is None else "no candidate can be made"
                    run.note("planning ended", why=f"{what} in a {state.stage} state")
                    break
                if (best := self._so_far(state, run)).text:
                    run.propose(best)
        return state

    def terminal(self, state: State) -> bool:
        """Whether the last observation holds the complete answer, or no sub-goal fits in the observations left."""
        out = state.goal is None and not legal(state, remaining=self.max_steps - len(state.observations), mask="paper")
        return out or bool(self.complete(state))

    async def expand(self, state: State, run: Run, *, without: frozenset[Goal] = frozenset()) -> list[Option]:
        """The actions of a state and their next states: sub-goals, or candidates for the execution of one.

        Empty at the end, and where a rationale is due but the observations already fill the model's context.

        without: sub-goals that failed in this state.
        """
        if self.terminal(state):
            return []
        match state.goal:
            case None:
                return self._goals(state, without)
            case "REASON":
                is_program = self.answer_form.draft_is_query  # the last rationale holds the program
                most = max(self.step_tokens, self.max_tokens) if is_program else self.step_tokens
                replies = await self._sample(state, run, "reason", most, stop=(END,))
                steps = [read_step(reply.text, self.answer_form) for reply in replies]
                return _distinct(replies, steps, state, "RATIONALE", before=state.rationales)
            case "GENQUERY":
                replies = await self._sample(state, run, "query", self.query_tokens)
                queries = [clean_query(reply.text, fallback="") for reply in replies]
                offered = _distinct(replies, queries, state, "QUERY", before=state.queries)
                return offered if any(option.state for option in offered) else [*offered, *_fallback(state, run)]
            case "RETRIEVE":
                return await self._documents(state, run)

    async def choose(self, state: State, offered: Sequence[Option], run: Run) -> State | None:
        """Equation 1: the state behind the option with the highest expected reward; the first of equals.

        None if every option was discarded.
        """
        if not offered:
            return None
        kind = kind_of(state)
        critic = self.judges.of(kind)
        limit = getattr(critic, "passage_tokens", None) or self.passage_tokens  # a trained critic's is of its training
        candidates = [option.candidate for option in offered]
        live = {place: option.state for place, option in enumerate(offered) if option.state is not None}
        best, why = next(iter(live), None), "only one" if live else "all were discarded"
        if len(live) > 1:
            pairs = [judged(state, following, tokens=limit)[1] for following in live.values()]
            try:
                scores = await run.score(critic, pairs)
            except ContextLengthExceeded as error:
                run.note("context full", step=critic.name, why=str(error))
                why = "the first: the context is too long for the critic"
            else:
                if weigh := getattr(critic, "weigh", None):  # one that was trained to weigh what else is known
                    scores = weigh(scores, [features(candidates[place]) for place in live])
                scored = dict(zip(live, scores, strict=True))
                best, why = max(scored, key=lambda place: scored[place]), "highest score"
                for place, score in scored.items():
                    candidates[place] = candidates[place].model_copy(update={"score": score})
        text = context(state, kind, tokens=limit)
        run.choose(kind, by=critic.name, context=text, candidates=candidates, chosen=best, why=why)
        return None if best is None else live[best]

    async def finish(self, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
        """The complete answer if the state holds one, otherwise a forced one; for rankings, a last retrieval.

        A forced answer is one more call (section 2.2, termination). The last step is the answer if its reply is empty,
        or if the prompt is too long even without documents.
        """
        if self.ranks:
            return await self._ranking(state, run, temperature=temperature)
        text = self.complete(state)
        if not text:
            sampling = Sampling(temperature=temperature, max_tokens=self.max_tokens)
            try:
                text = await self._ask(self.last_call, state, run, sampling)
            except ContextLengthExceeded as error:
                if not state.rationales:
                    raise
                run.note("context full", step=self.last_call, why=str(error), kept="the last step")
                return self._so_far(state, run)
            if not text.strip():
                run.note("answer empty", kept="the last step")
                return self._so_far(state, run)
        return self._answer_of(state, text, run)

    def complete(self, state: State) -> str:
        """The complete answer in the last observation, if that is a rationale and ends the plan; otherwise empty."""
        if self.conclude == "documents" and not self.ranks:
            return ""
        return complete_answer(state.observations[-1].text, self.answer_form) if state.stage == "RATIONALE" else ""

    @property
    def ranks(self) -> bool:
        """Whether the answer is a ranking of documents."""
        return self.answer == "ranking"

    @property
    def answer_form(self) -> AnswerForm:
        """The form of a step's complete answer; for rankings it is a query."""
        return QUERY if self.ranks else self.form

    @cached_property
    def judges(self) -> Critics:
        """The critics in use, the same ones for every question."""
        return self.critics if self.critics is not None else load(self.critic, model=self.model)

    @property
    def last_call(self) -> Literal["answer", "documents", "search"]:
        """The call that concludes, if one is needed."""
        return "search" if self.ranks else "documents" if self.conclude == "documents" else "answer"

    def prompt(self, name: Literal["reason", "query", "answer", "documents", "search"], state: State) -> str:
        """One of the templates, filled for a state."""
        kind = task_kind(self.form, ranking=self.ranks)
        return render(
            getattr(self.prompts, name),
            task=getattr(self.prompts, kind),
            guide=getattr(self.prompts, f"{kind}_query"),
            question=state.question,
            history=history(state, tokens=self.passage_tokens, goals=name != "reason"),
            passages=fence(state.passages, tokens=self.passage_tokens),
            step="".join(state.rationales[-1:]),
            asked="\n".join(state.queries),
            last=last_step(self.form, ranking=self.ranks),
            form=ending(self.form),
        )

    def _goals(self, state: State, without: frozenset[Goal]) -> list[Option]:
        """f_rule: the legal sub-goals."""
        remaining = self.max_steps - len(state.observations)
        allowed = legal(state, remaining=remaining, retrieval=self.retrieval, mask=self.mask)
        offered = []
        for goal in (*allowed, *(goal for goal in GOALS if goal not in allowed)):
            why = None if goal in allowed else "it cannot help here"
            why = "it brought nothing new here" if goal in without else why
            candidate = Candidate(text=SENTENCES[goal], discarded=why, data={"goal": goal, "stage": state.stage})
            offered.append(Option(candidate, None if why else state.after(Observation(goal, SENTENCES[goal]))))
        return offered

    async def _sample(
        self, state: State, run: Run, name: Literal["reason", "query"], most: int, stop: tuple[str, ...] = ()
    ) -> list[Reply]:
        """Sample all candidates in one call; none if the prompt is too long for the model."""
        sampling = self.sampling(most, n=self.candidates, stop=stop, logprobs=True)
        try:
            prompt = self.prompt(name, state)
            return await run.generate(self.model, prompt, name=name, sampling=sampling, logprobs="welcome")
        except ContextLengthExceeded as error:
            run.note("context full", step=name, why=str(error))
            return []

    async def _documents(self, state: State, run: Run) -> list[Option]:
        """f_retr: the first documents that were not read yet, as many as are offered.

        For rankings, each retrieval is as deep as the last one, so that an early end still gives a whole ranking.
        """
        if self.retriever is None:
            return []
        read = {passage.id for passage in state.passages}
        most = self.documents or self.candidates
        k = max(most + len(read), self.ranked if self.ranks else 1)
        offered: list[Option] = []
        fresh = 0
        for passage in await find(run, self.retriever, search_query(state), k=k):
            why = "it was read before" if passage.id in read else None
            if why is None and fresh == most:
                break
            fresh += why is None
            text = document_text(state, passage, tokens=self.passage_tokens)
            candidate = Candidate(text=text, discarded=why, data={"passage": passage.id, "score": passage.score})
            following = state.after(Observation("DOC", passage.text, passage)) if why is None else None
            offered.append(Option(candidate, following))
        if not fresh:
            nothing = Candidate(text=NOTHING, data={"passage": None})
            offered.append(Option(nothing, state.after(Observation("DOC", NOTHING))))
        return offered

    async def _ask(
        self, name: Literal["answer", "documents", "search"], state: State, run: Run, sampling: Sampling
    ) -> str:
        """A concluding call. While its prompt is too long for the model, documents are halved."""
        planner = self
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

    async def _ranking(self, state: State, run: Run, *, temperature: float = 0.0) -> Answer:
        """The last retrieval (section 3.4), with the query that the reasoning ended in, or the one just chosen.

        Without either, the generator writes the query from all observations. If a query finds nothing, the question is
        searched.
        """
        query = self.answer_form.extract(self.complete(state)) or (state.queries[-1] if state.searching else "")
        if not query:
            sampling = Sampling(temperature=temperature, max_tokens=self.query_tokens)
            try:
                query = clean_query(await self._ask("search", state, run, sampling), fallback=state.question)
            except ContextLengthExceeded as error:
                query = search_query(state)
                run.note("context full", step="search", why=str(error), kept=query)
        passages: Sequence[Passage] = ()
        for attempt in dict.fromkeys((query, state.question)):
            if self.retriever is not None and not passages:
                passages = await find(run, self.retriever, attempt, k=self.ranked)
        return _listed(passages, state)

    def _so_far(self, state: State, run: Run) -> Answer:
        """The answer if everything ended here: the last step, or the documents read."""
        if self.ranks:
            return _listed(state.passages, state)
        return self._answer_of(state, "".join(state.rationales[-1:]), run)

    def _answer_of(self, state: State, text: str, run: Run) -> Answer:
        """A text as the answer, with its citations, and the reasoning as steps."""
        evidence = Evidence()
        return evidence.answer(text, run, self.form, sources=evidence.add(state.passages), steps=thoughts(state))


class Option(NamedTuple):
    """A candidate action and the state that it leads to; no state if the candidate is discarded."""

    candidate: Candidate
    state: State | None = None


def _fallback(state: State, run: Run) -> list[Option]:
    """The last rationale as the query, or else the question, unless it was asked before."""
    queries = set(map(alike, state.queries))
    for text in (*state.rationales[-1:], state.question):
        query = clip(" ".join(text.split()), _FALLBACK)
        if query and alike(query) not in queries:
            run.note("query fell back", query=query, why="the generator wrote no usable one")
            candidate = Candidate(text=query, data={"fallback": True})
            return [Option(candidate, state.after(Observation("QUERY", query)))]
    return []


def document_text(state: State, passage: Passage, *, tokens: int) -> str:
    """A document as a candidate: fenced, cut, and numbered as it would be cited."""
    return fence([passage], markers=[len(state.passages) + 1], tokens=tokens)


def judged(parent: State, child: State, *, tokens: int) -> tuple[Kind, Pair]:
    """The critic that chooses between a parent's children, and its input for this one, in solving and in training.

    tokens: where documents are cut.
    """
    kind = kind_of(parent)
    last = child.observations[-1]
    text = last.text if last.passage is None else document_text(parent, last.passage, tokens=tokens)
    return kind, Pair(context=context(parent, kind, tokens=tokens), candidate=text)


def features(candidate: Candidate) -> dict[str, JsonValue]:
    """The features of a candidate besides its text, for critics, in solving and in training."""
    return candidate.data if candidate.logprob is None else {"logprob": candidate.logprob, **candidate.data}


def _distinct(
    replies: Sequence[Reply], texts: Sequence[str], state: State, stage: Outcome, *, before: Sequence[str]
) -> list[Option]:
    """Replies as options, in order. Empty and repeated ones are discarded.

    texts: what was read in each reply. stage: the observation that it makes. before: what was said before.
    """
    earlier, distinct = set(map(alike, before)), set[str]()
    offered = []
    for reply, text in zip(replies, texts, strict=True):
        why = None
        if not text:
            why = "it says nothing"
        elif alike(text) in earlier:
            why = "it repeats what was said before"
        elif alike(text) in distinct:
            why = "another candidate says the same"
        distinct.add(alike(text))
        data: dict[str, JsonValue] = {"finish_reason": reply.finish_reason}
        candidate = Candidate(text=text or reply.text, logprob=reply.mean_logprob, discarded=why, data=data)
        offered.append(Option(candidate, None if why else state.after(Observation(stage, text))))
    return offered


QUERY = replace(PHRASE, name="query")
"""The form of the last step for rankings: the query of the last retrieval."""

_STATEMENT = re.compile(
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

_PYTHON = ("", "python", "python3", "py")
_LONGEST = 50_000
"""Maximum characters of a program. A longer one is not an answer, and parsing it would take seconds."""


def complete_answer(step: str, form: AnswerForm) -> str:
    """The answer that a step holds, as a whole response; empty if it holds none.

    A program is complete if its code block is closed, parses, does something and defines every name it uses. Other
    answers follow "Answer:" and are neither a plan nor a placeholder. Where the thoughts are the answer (prose, plans),
    the label begins a line and the response is the text after it.
    """
    if form.draft_is_query:
        blocks = code_blocks(step, closed=True)
        return step if any(language in _PYTHON and _is_program(body, form) for language, body in blocks) else ""
    if not form.final_pass:
        statement = _LABEL.sub("", split_answer(step, form)[1], count=1).strip()
        return statement if _settled(statement, form) else ""
    matches = list(_STATEMENT.finditer(step))
    tail = step[matches[-1].start("answer") :] if matches else ""
    short = form.extract(tail)
    if not short or not _settled(_LABEL.sub("", tail, count=1).strip(), form):
        return ""
    return step if form.extract(step) == short else tail


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
    tree = parsed(body) if len(body) <= _LONGEST else 0
    if not isinstance(tree, ast.Module):
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
    nodes = [node for node in ast.walk(tree) if not isinstance(node, ast.keyword)]
    names = [node for node in nodes if isinstance(node, ast.Name)]
    defined = {node.id for node in names if isinstance(node.ctx, ast.Store)}
    for part in ("name", "asname", "arg", "rest"):  # functions, classes, handlers, imports, parameters, patterns
        values = (getattr(node, part, None) for node in nodes)
        defined |= {each.partition(".")[0] for each in values if isinstance(each, str)}
    if "*" in defined:  # a module's every name
        return set()
    notes = [getattr(node, part, None) for node in nodes for part in ("annotation", "returns")]
    unread = {id(inner) for note in notes if isinstance(note, ast.AST) for inner in ast.walk(note)}
    names_used = {node.id for node in names if id(node) not in unread}
    return names_used - defined - set(dir(builtins)) - {"__file__"}


def _listed(passages: Sequence[Passage], state: State) -> Answer:
    """Documents as an answer that cites them: one per line, in order."""
    lines = [f"{place}. {passage.title or passage.id}" for place, passage in enumerate(passages, start=1)]
    citations = tuple(Citation.of(place, passage) for place, passage in enumerate(passages, start=1))
    return Answer(text="\n".join(lines), citations=citations, shown=citations, steps=thoughts(state))


def thoughts(state: State) -> tuple[Thought, ...]:
    """The rationales, each with its last query and the documents found before the next rationale.

    Anything before the first rationale belongs to the first.
    """
    steps = [Thought(text="")]
    documents = 0
    for observation in state.observations:
        change: dict[str, object] = {}
        if observation.stage == "RATIONALE":
            if steps[-1].text:
                steps.append(Thought(text=""))
            change = {"text": observation.text}
        elif observation.stage == "QUERY":
            change = {"query": observation.text}
        elif observation.passage is not None:
            documents += 1
            change = {"citations": (*steps[-1].citations, documents)}
        steps[-1] = steps[-1].model_copy(update=change)
    return tuple(step for step in steps if step.text)


def task_kind(form: AnswerForm, *, ranking: bool) -> TaskKind:
    """The kind of task for a form of answer. Plans and prose are questions."""
    return "retrieval" if ranking else _BY_FORM.get(form.name, "qa")


def last_step(form: AnswerForm, *, ranking: bool) -> str:
    """The form of the step that ends the reasoning; `complete_answer` detects it."""
    if ranking:
        return "one line that starts with 'Answer:' and holds the best search query for the documents."
    if form.final_pass:
        return form.instruction
    return f"a line that starts with 'Answer:' and behind it the whole answer. {cite(form)} {form.instruction}"


_STEP = re.compile(r"^[\s>*_#-]*+(?:next\s++)?+step\b\s*+\d*+\s*+[*_]*+\s*+[.:)][\s*_]*+", re.IGNORECASE)
_LATER = re.compile(
    r"(?im)^[ \t>*_#-]*+(?:next\s++)?+step\s*+\d++\s*+[*_]*+\s*+[.:)]|^[ \t]*+(?:<passage\b|search query:)"
)


def read_step(reply: str, form: AnswerForm) -> str:
    """The first step in a reply, without its label and without later steps. Empty if it says nothing."""
    text = _STEP.sub("", reply.partition(END)[0].strip(), count=1)
    _, answer = split_answer(text, form)
    text = text[: _later(text, text.rindex(answer) if answer else len(text))].strip()
    return text if any(char.isalnum() for char in text) else ""


def _later(text: str, answer: int) -> int:
    """Where a later step begins. Lines of the answer or of a code block do not count, even if they look like steps."""
    fences = start = 0
    for match in _LATER.finditer(text, 0, answer):
        fences += text.count("```", start, match.start())
        start = match.start()
        if fences % 2 == 0:
            return start
    return len(text)
