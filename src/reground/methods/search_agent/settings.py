"""The settings of the Search Agent."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from reground.core.answers import TEXT, AnswerForm
from reground.core.evidence import Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel
from reground.methods.search_agent.prompts import Prompts
from reground.methods.shared.prompts import require

_PROMPTS = Prompts()


@dataclass(frozen=True, kw_only=True)
class Settings:
    """An agent with a search engine, made of five kinds of reasoning steps.

    model, retriever: the model that reasons, and the index to search. form: the form of the answer; the agent's own
    answer is prose with links, and forms other than text need one more call that states the short answer.
    prompts: the code of the steps. max_searches: maximum number of searches. k: results per search.
    samples: replies sampled per step; the one of lowest perplexity is used. 4 in the paper, 16 for its smallest model.
    temperature: sampling temperature; 0.5 in the paper.
    exemplars: which of them a prompt with few of them shows: the first, or others for each question (rotated).
    shots: maximum number of exemplars in a prompt; None shows all (9 for decisions, 6 for summaries, 5 for answers,
    6 and 5 for checks), about 2,000 tokens a step. retries: how often a step is sampled again if no sample is usable.
    checks: whether the two self-checks are made. snippet_tokens: maximum length of a result in tokens.
    grammar: whether decoding keeps replies to the form of the actions: off; welcome, where the model can; or needed.
    context_tokens: maximum tokens of a prompt and its reply; None is no limit.
    action_tokens: maximum tokens of a decision or a summary.
    max_tokens: maximum tokens of an answer, or of a check, which may rewrite it.
    """

    model: LanguageModel
    retriever: Retriever
    form: AnswerForm = TEXT
    prompts: Prompts = _PROMPTS
    max_searches: int = 10
    k: int = 3
    samples: int = 4
    temperature: float = 0.5
    exemplars: Literal["first", "rotated"] = "first"
    shots: int | None = None
    retries: int = 1
    checks: bool = True
    grammar: Literal["off", "welcome", "needed"] = "off"
    snippet_tokens: int = 160
    context_tokens: int | None = 8000
    action_tokens: int = 256
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        require(min(self.k, self.samples) >= 1, "k and samples must be at least 1")
        require(min(self.max_searches, self.retries) >= 0, "max_searches and retries must not be negative")
        require(self.shots is None or self.shots >= 0, "shots must not be negative")
        require(self.samples == 1 or self.temperature > 0, "at temperature 0 all samples are alike: set samples to 1")
        lengths = min(self.snippet_tokens, self.action_tokens, self.max_tokens)
        require(lengths >= 1, "token limits must be at least 1")
        fits = self.context_tokens is None or self.context_tokens > max(self.action_tokens, self.max_tokens)
        require(fits, "context_tokens must be more than action_tokens and max_tokens")
