"""The Search Agent's actions, and how a prompt writes them as Python code (listings 1 to 6)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, TypeAlias

from pydantic import JsonValue

from reground.core.citations import unbracketed
from reground.core.evidence import Passage
from reground.core.untrusted import clip

END = "# [END]"


@dataclass(frozen=True)
class Search:
    """Look something up."""

    query: str
    thoughts: str = ""


@dataclass(frozen=True)
class Terminate:
    """End the search loop."""

    thoughts: str = ""


@dataclass(frozen=True)
class LinkSelection:
    """The useful links of one search, and their summary."""

    grounded_summarization: str
    selected_link_ids: tuple[int, ...]
    thoughts: str = ""


@dataclass(frozen=True)
class GivenAnswer:
    """The answer to the question; `Answer` in the prompts."""

    answer: str
    thoughts: str = ""


@dataclass(frozen=True)
class CheckAnswer:
    """The verdict of a self-check; `Check_Answer` in the prompts."""

    passed: bool


@dataclass(frozen=True)
class ReviseAnswer:
    """A better answer after a failed self-check; `Revise_Answer` in the prompts."""

    revised_answer: str
    thoughts: str = ""


Action: TypeAlias = Search | Terminate | LinkSelection | GivenAnswer | CheckAnswer | ReviseAnswer

NAMES: Mapping[type[Action], str] = {
    Search: "Search",
    Terminate: "Terminate",
    LinkSelection: "LinkSelection",
    GivenAnswer: "Answer",
    CheckAnswer: "Check_Answer",
    ReviseAnswer: "Revise_Answer",
}
"""What each action is called in the prompts."""

FIELDS: Mapping[str, tuple[str, ...]] = {
    "Search": ("query", "thoughts"),
    "Terminate": ("thoughts",),
    "LinkSelection": ("grounded_summarization", "thoughts", "selected_link_ids"),
    "Answer": ("thoughts", "answer"),
    "Check_Answer": ("passed",),
    "Revise_Answer": ("revised_answer", "thoughts"),
}
"""The fields of each action, in the order of its positional arguments."""


@dataclass(frozen=True)
class ResultItem:
    """A search result as the prompt shows it."""

    link_id: int
    link_text: str
    snippet: str

    @classmethod
    def of(cls, link_id: int, passage: Passage) -> ResultItem:
        """A passage under its number."""
        return cls(link_id, passage.title, passage.text)


@dataclass(frozen=True)
class SelectLink:
    """A LinkSelection among the past actions, with the links themselves."""

    selected_links: tuple[ResultItem, ...]
    grounded_summarization: str
    thoughts: str = ""


Past: TypeAlias = Search | SelectLink | Terminate | GivenAnswer


def as_data(action: Action) -> dict[str, JsonValue]:
    """The action as JSON, for trajectories."""
    fields: dict[str, JsonValue] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in asdict(action).items()
    }
    return {"action": type(action).__name__, **fields}


def from_data(data: Mapping[str, JsonValue]) -> Action:
    """The action that `as_data` wrote. Raises KeyError or TypeError for other data."""
    kinds: dict[str, type[Action]] = {kind.__name__: kind for kind in NAMES}
    fields: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in data.items() if name != "action"
    }
    return kinds[str(data["action"])](**fields)


def literal(text: str) -> str:
    """A Python string literal, always in double quotes, with line breaks and quotes escaped.

    Models copy the quotes they see, and double quotes allow apostrophes in the text.
    """
    # repr uses double quotes for a text with an apostrophe and no double quote, and escapes neither.
    return '"' + '\\"'.join(repr("'" + part)[2:-1] for part in text.split('"')) + '"'


def reply(action: Action, comments: Sequence[str] = ()) -> str:
    """An assistant's turn, as in the exemplars."""
    return "\n".join([*(f"# {comment}" for comment in comments), f"ACTION_SELECTED = {_selected(action)}  {END}"])


def _selected(action: Action) -> str:
    match action:
        case Search(query, thoughts):
            return f"ActionWrapper(thoughts={literal(thoughts)}, action=Search(query={literal(query)}))"
        case Terminate(thoughts):
            return f"ActionWrapper(thoughts={literal(thoughts)}, action=Terminate())"
        case LinkSelection(summary, ids, thoughts):
            return (
                f"LinkSelection(grounded_summarization={literal(summary)}, thoughts={literal(thoughts)}, "
                f"selected_link_ids={list(ids)})"
            )
        case GivenAnswer(answer, thoughts):
            return f"Answer(thoughts={literal(thoughts)}, answer={literal(answer)})"
        case CheckAnswer(passed):
            return f"Check_Answer(passed={passed})"
        case ReviseAnswer(revised):
            return f"Revise_Answer(revised_answer={literal(revised)})"


def past_code(past: Past, *, snippet_tokens: int) -> str:
    """A past action as an entry of PAST_ACTIONS, its snippets cut to `snippet_tokens` tokens."""
    match past:
        case Search(query, thoughts):
            return f"Search(query={literal(query)},\nthoughts={literal(thoughts)},\n),"
        case Terminate(thoughts):
            return f"Terminate(thoughts={literal(thoughts)}),"
        case GivenAnswer(answer, thoughts):
            return f"Answer(thoughts={literal(thoughts)}, answer={literal(answer)}),"
        case SelectLink(links, summary, thoughts):
            shown = results_code(links, snippet_tokens=snippet_tokens)
            head = f"SelectLink(selected_links=[\n{shown}\n]," if links else "SelectLink(selected_links=[],"
            return f"{head}\ngrounded_summarization={literal(summary)},\nthoughts={literal(thoughts)},\n),"


def results_code(links: Sequence[ResultItem], *, snippet_tokens: int) -> str:
    """Search results, one entry each, cut to `snippet_tokens` tokens."""
    return "\n".join(_result(cut_item(link, snippet_tokens)) for link in links)


def cut_item(link: ResultItem, tokens: int) -> ResultItem:
    """The result with normalised white space, cut to length."""
    title, snippet = (" ".join(text.split()) for text in (link.link_text, link.snippet))
    return replace(link, link_text=clip(title, 24), snippet=clip(snippet, tokens))


def _result(link: ResultItem) -> str:
    text, snippet = literal(link.link_text), literal(unbracketed(link.snippet))
    return f"  ResultItem(link_id={link.link_id}, link_text={text},\n    snippet={snippet}),"
