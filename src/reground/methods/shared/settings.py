"""Settings that many methods have, and the checks of their values before any question is asked."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args, get_origin, get_type_hints

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import ConfigurationError
from reground.core.evidence import Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling


@dataclass(frozen=True, kw_only=True)
class Settings:
    """A model and how it answers.

    model: the model that answers. form: the form of the answer. temperature: sampling temperature; 0 is greedy.
    max_tokens: maximum tokens of an answer.
    """

    model: LanguageModel
    form: AnswerForm = TEXT
    temperature: float = 0.0
    max_tokens: int = REPLY_TOKENS

    def __post_init__(self) -> None:
        """Raise ConfigurationError for a number of passages or of tokens below 1."""
        for name in (each.name for each in fields(self)):
            value = getattr(self, name)
            if value is not None and (name == "k" or name.endswith("tokens")):
                require(value >= 1, f"{name} must be at least 1")

    def sampling(self, max_tokens: int | None = None) -> Sampling:
        """How a reply is decoded, of `max_tokens` tokens if no other limit is given."""
        return Sampling(temperature=self.temperature, max_tokens=self.max_tokens if max_tokens is None else max_tokens)


@dataclass(frozen=True, kw_only=True)
class Retrieving(Settings):
    """A model that reads what a retriever finds.

    retriever: the index to search. k: passages per search. passage_tokens: maximum length of a passage in tokens; the
    default is the longest piece in RAT (appendix A.3).
    """

    retriever: Retriever
    k: int = 5
    passage_tokens: int = 2000


def require(holds: bool, complaint: str) -> None:
    """Raise ConfigurationError with `complaint` unless the condition holds."""
    if not holds:
        raise ConfigurationError(complaint)


def require_choices(config: object) -> None:
    """Raise ConfigurationError unless every setting whose type is a Literal has one of its values."""
    for name, hint in get_type_hints(type(config)).items():
        known = get_args(hint)
        if get_origin(hint) is Literal:
            require(getattr(config, name) in known, f"{name} must be one of {', '.join(map(repr, known))}")
