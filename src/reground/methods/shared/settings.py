"""Settings that many methods have, and the checks of their values before any question is asked."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Annotated, Any, ClassVar, Literal, Self, TypeAlias, get_args, get_origin, get_type_hints

from reground.core.answers import TEXT, AnswerForm
from reground.core.errors import ConfigurationError
from reground.core.evidence import Retriever
from reground.core.language import REPLY_TOKENS, LanguageModel, Sampling

Positive: TypeAlias = Annotated[int, 1]
"""A whole number of at least 1: a setting's least value stands in its type."""
NotNegative: TypeAlias = Annotated[int, 0]


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

    PRESETS: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    """The settings of each preset."""
    LADDER: ClassVar[Sequence[Mapping[str, Any]]] = ()
    """The settings of each size, the smallest first."""

    def __post_init__(self) -> None:
        require_types(self)

    def sizes(self) -> Sequence[Self]:
        """The method in each size of its ladder."""
        return [replace(self, **size) for size in self.LADDER] or [self]

    def sampling(self, max_tokens: int | None = None, **more: Any) -> Sampling:
        """How a reply is decoded, of `max_tokens` tokens if no other limit is given. more: other fields of it."""
        limit = self.max_tokens if max_tokens is None else max_tokens
        return Sampling(temperature=self.temperature, max_tokens=limit, **more)


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


def require_types(config: object) -> None:
    """Raise ConfigurationError for a value below the least of its type, or that is none of its Literal's.

    A number of passages (`k`) or of tokens is always at least 1.
    """
    for name, hint in get_type_hints(type(config), include_extras=True).items():
        value: Any = getattr(config, name)
        least = [1] if name == "k" or name.endswith("tokens") else []
        for part in (hint, *get_args(hint)):
            least += getattr(part, "__metadata__", ())
        require(value is None or not least or value >= max(least), f"{name} must be at least {max(least, default=0)}")
        if get_origin(hint) is Literal:
            require(value in get_args(hint), f"{name} must be one of {', '.join(map(repr, get_args(hint)))}")
