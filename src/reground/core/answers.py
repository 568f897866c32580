"""Answers, their citations, and the forms that an answer can take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from reground.core.code_blocks import extract_program
from reground.core.evidence import Passage
from reground.core.extraction import extract_letters, extract_number, extract_short, marked_answer
from reground.core.language import LATER, Number, Text, Value

ABSTENTION = "Not in these passages."
"""What a model writes for an answer that the passages do not hold."""


class Citation(Value):
    """A cited passage.

    marker: its number, in square brackets in the text. line, page: where its quote begins in the file, from 1, if that
    is known. heading: the headings that the quote stands under, outermost first, with > between them. fragment: the id
    of the nearest heading of an HTML page that has one, for a link. fetched: when a page of the web was fetched, as ISO
    8601 in UTC.
    """

    marker: int
    passage_id: Text
    title: Text = ""
    url: Text | None = None
    quote: Text = ""
    line: int | None = None
    page: int | None = None
    heading: Text = ""
    fragment: Text | None = None
    fetched: Annotated[Text | None, LATER] = None

    @classmethod
    def of(cls, marker: int, passage: Passage, quote: str) -> Citation:
        """A citation of a passage, whose white space in the quote is made plain."""
        return cls(
            marker=marker,
            passage_id=passage.id,
            title=passage.title,
            url=passage.url,
            quote=" ".join(quote.split()),
            fetched=passage.fetched,
        )


def opening(passage: Passage) -> str:
    """The first 200 characters of a passage, which a citation of it quotes."""
    return " ".join(" ".join(passage.text.split())[:200].split())


class Thought(Value):
    """The final version of one reasoning step.

    draft: the version that it revises. reflection: the criticism that led to the revision. citations: markers.
    """

    text: Text
    draft: Text | None = None
    reflection: Text | None = None
    query: Text | None = None
    citations: tuple[int, ...] = ()


class Sentence(Value):
    """A sentence of an answer, and what supports it. The texts of all are the answer.

    score: how far the documents support it, from 0 to 1; None if it claims nothing. supports: the sentences of passages
    that support it, as quotes: one, or two that support it together; empty if none does.
    """

    text: Text
    score: Number | None = None
    supports: tuple[Citation, ...] = ()

    @property
    def supported(self) -> bool | None:
        """Whether it is supported; None if it claims nothing."""
        return None if self.score is None else bool(self.supports)


class Answer(Value):
    """What a method returns. `text` is the whole response; a form's `extract` finds the short answer in it.

    citations: the passages whose markers are in `text`. An answer without markers, such as a bare phrase, a number or a
        program, cites nothing.
    shown: the passages in the prompts from which the text was written, cited ones first.
    sentences: the text sentence by sentence, where its support was checked.
    """

    text: Text
    citations: tuple[Citation, ...] = ()
    shown: tuple[Citation, ...] = ()
    steps: tuple[Thought, ...] = ()
    sentences: tuple[Sentence, ...] = ()

    @property
    def faithfulness(self) -> float | None:
        """The share of the claiming sentences that are supported; None if nothing was checked or claimed."""
        claiming = [each.supported for each in self.sentences if each.supported is not None]
        return sum(claiming) / len(claiming) if claiming else None


class Demonstration(Value):
    """A worked example for few-shot prompts, never taken from the evaluated questions."""

    question: str
    reasoning: str = ""
    answer: str


@dataclass(frozen=True)
class AnswerForm:
    """The form of an answer, for prompts, voting and scoring.

    name: its name in configuration and tasks.
    instruction: the sentence that tells a model how to state the answer.
    extract: finds the comparable answer in a response; empty if there is none.
    final_pass: whether one more call writes the answer from the revised thoughts (code, questions). Otherwise the
        thoughts are the answer (plans, short prose); RAT, section 2.2.
    reads_input: whether a program is a whole one that reads standard input and prints, and not a function.
    outlined: whether the thoughts are the parts of a long text, which one more call writes as a whole (creative
        writing; RAT, section 2.2). A method without such a call gives the thoughts in the form of the text.
    draft_is_query: whether the draft itself is the query, as for code (RAT, appendix B).
    bare: the instruction for a call that states only the answer; empty if it is the same.
    usual: usual tokens of an answer with a sentence before it. A method keeps this many for its last call.
    """

    name: str
    instruction: str
    extract: Callable[[str], str]
    final_pass: bool = True
    draft_is_query: bool = False
    bare: str = ""
    usual: int = 64
    outlined: bool = False
    reads_input: bool = False

    @property
    def short(self) -> str:
        """How to state the answer alone, without reasoning."""
        return self.bare or self.instruction


_MARKUP = " \t\n*_`\"'\u201c>#-"


def abstains(text: str) -> bool:
    """Whether an answer says that the passages do not hold it, perhaps behind "Answer:"."""
    places = (text, marked_answer(text) or "")
    return any(" ".join(each.split()).lstrip(_MARKUP).startswith(ABSTENTION.rstrip(".")) for each in places)


TEXT = AnswerForm(
    "text",
    "Answer fully but briefly, in plain prose and in the language of the question.",
    str.strip,
    final_pass=False,
    usual=200,
)
PHRASE = AnswerForm(
    "phrase",
    (
        "End with a last line of the form 'Answer: ...' that holds nothing but the answer itself, in as few words as "
        "possible."
    ),
    extract_short,
    bare="Answer with the shortest phrase that is right, and nothing else.",
)
CHOICE = AnswerForm(
    "choice",
    "End with one line that starts with 'Answer:' and holds only the letter, or the letters, of the right options.",
    extract_letters,
    bare="Answer with the letter of the right option, or the letters if several are right, and nothing else.",
)
NUMBER = AnswerForm(
    "number",
    "End with one line that starts with 'Answer:' and holds only the final number.",
    extract_number,
    bare="Answer with the final number and nothing else.",
)
PROGRAM = AnswerForm(
    "program",
    "Give one complete Python program in a single ```python block: "
    "all imports, all helper functions, no example calls.",
    extract_program,
    draft_is_query=True,
    usual=256,
)
PAL = AnswerForm(
    "pal",
    "Answer with a single ```python block that defines a function solution() without arguments, which returns the "
    "answer as a number. Begin with 'def solution():' and write a comment above each step.",
    partial(extract_program, names=("solution",)),
    draft_is_query=True,
    usual=160,
)
PLAN = AnswerForm(
    "plan",
    "Give the whole plan, one line a step, each line starting with 'STEP' and its number.",
    str.strip,
    final_pass=False,
    usual=200,
)
ARTICLE = AnswerForm(
    "article",
    "Write an article in Markdown, in the language of the task: a title after '# ', and then at least three parts, "
    "each with a subtitle after '## ' and one or two paragraphs of full sentences below it. Be exact about "
    "names and dates. Write the article only, about 400 words.",
    str.strip,
    final_pass=False,
    usual=600,
    outlined=True,
)

FORMS: dict[str, AnswerForm] = {form.name: form for form in (TEXT, PHRASE, CHOICE, NUMBER, PROGRAM, PAL, PLAN, ARTICLE)}
