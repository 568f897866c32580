"""The settings of a planner, and what follows from them: its prompts, its critics, what counts as an answer."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from reground.core.answers import TEXT, AnswerForm
from reground.core.evidence import Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel
from reground.core.untrusted import fence
from reground.critics import Critics, load
from reground.methods.cr_planner.complete import QUERY, complete_answer
from reground.methods.cr_planner.prompts import Prompts, kind_of, last_step
from reground.methods.cr_planner.states import Mask, State, history
from reground.methods.shared.prompts import ending, render, require


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of a planner.

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

    model: LanguageModel
    retriever: Retriever | None = None
    form: AnswerForm = TEXT
    prompts: Prompts = field(default_factory=Prompts)
    critic: str = "prompted"
    critics: Critics | None = None
    candidates: int = 3
    temperature: float = 0.7
    max_steps: int = 16
    retrieval: bool = True
    mask: Mask = "useful"
    answer: Literal["form", "ranking"] = "form"
    documents: int | None = None
    conclude: Literal["plan", "documents"] = "plan"
    ranked: int = 10
    passage_tokens: int = 500
    step_tokens: int = 256
    query_tokens: int = 48
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        limits = (self.passage_tokens, self.step_tokens, self.query_tokens, self.max_tokens)
        require(self.candidates >= 1, "candidates must be at least 1")
        require(self.documents is None or self.documents >= 1, "documents must be at least 1, or None")
        require(self.max_steps >= 2, "max_steps must be at least 2: a sub-goal and its execution")
        require(self.ranked >= 1, "ranked must be at least 1")
        require(min(limits) >= 1, "token limits must be at least 1")
        require(self.retrieval or not self.ranks, "answer=ranking needs retrieval")
        has_documents = self.retriever is not None or not self.retrieval
        require(has_documents, "the method cr_planner needs documents: give --corpus DIR, or set retrieval=false")
        _ = self.judges  # refuses an unknown critic before any question is asked

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
    def offered(self) -> int:
        """The number of documents offered for each choice."""
        return self.documents or self.candidates

    @property
    def answer_form(self) -> AnswerForm:
        """The form of a step's complete answer; for rankings it is a query."""
        return QUERY if self.ranks else self.form

    @property
    def longest_step(self) -> int:
        """Maximum tokens of a rationale. If the form is a program, the last rationale holds it."""
        return max(self.step_tokens, self.max_tokens) if self.answer_form.draft_is_query else self.step_tokens

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
        kind = kind_of(self.form, ranking=self.ranks)
        if name == "documents":
            passages = fence(state.passages, tokens=self.passage_tokens)
            return render(self.prompts.documents, passages=passages, question=state.question, form=ending(self.form))
        if name == "query":
            return render(
                self.prompts.query,
                question=state.question,
                step=state.rationales[-1] if state.rationales else "",
                asked="\n".join(state.queries),
                guide=self.prompts.guide(kind),
            )
        seen = {
            "task": self.prompts.task(kind),
            "question": state.question,
            "history": history(state, tokens=self.passage_tokens, goals=name != "reason"),
        }
        if name == "reason":
            return render(self.prompts.reason, **seen, last=last_step(self.form, ranking=self.ranks))
        if name == "search":
            return render(self.prompts.search, **seen)
        return render(self.prompts.answer, **seen, form=ending(self.form))
