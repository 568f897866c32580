"""Answers, their citations, and the forms that an answer can take."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Annotated

from reground.core.evidence import Passage
from reground.core.language import LATER, Value
from reground.core.markers import marker_runs
from reground.core.sources import extract_program
from reground.core.storable import Number, Text

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


_ANSWER_LINE = re.compile(r"(?im)^[ \t>*_#-]*+(?:final\s++)?+answer[\s*_]*+(?:is)?+[\s*_]*+[:：][\s*_]*+(.*)$")
_ANSWER_INLINE = re.compile(r"(?i)(?<![A-Za-z])(?:final )?answer:\**+\s++(\S.*)$", re.MULTILINE)
_INITIAL = r"(?<=\b(?-i:[A-Z]))\.\s++(?!(?:a|an|as|because|both|he|i|in|it|she|so|that|the|they|this)\b)(?-i:[A-Z])"
"""The point of "John F. Kennedy", and not that of "vitamin C. It is"."""
_ABBREVIATION = r"(?<=\b(?:st|mr|ms|dr|jr|sr))\.\s"
_ANSWER_PHRASE = re.compile(rf"(?is)\banswer is:?\s+(.+?)(?:(?!{_INITIAL}|{_ABBREVIATION})\.(?:\s|$)|\n|$)")
_VERDICT = re.compile(r"(?i)(yes|no)[*_]*(?:[,;:]|\.(?!\s*\d))[*_]*(?:\s++\S++){4}")
_BETWEEN_LETTERS = r"(?:\s*+|[)）.]*+\s*+(?:[,、;；/&和及]|and\b)++(?:\s*+and\b)?\s*+|[)）]\s*+(?=[(（]))[(（]*+"
"""A closed bracket needs a comma, "and" or another bracket behind it: in "A) E. coli" one option is chosen."""
_LETTERS = re.compile(rf"^[(（]*+([A-H](?:{_BETWEEN_LETTERS}[A-H])*)(?![A-Za-z])")
_NUMBER = re.compile(r"(?:(?<![\w.)$%])[-+]|(?<=[$€£¥])-)?[$€£¥]?\d[\d,]*(?:\.\d+)?(?:[eE][-+]?\d+)?")
_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:\{,\}|\\[,;:! ]|[ \u00a0\u2009\u202f'’])\d{3})+(?!\d)")
"""A number whose thousands LaTeX, a space or an apostrophe sets apart, as in 12{,}000 and 12 000."""
_BOXED = re.compile(r"\\boxed\{([^{}]*)\}")
_REMARK = re.compile(r"(?<=[\d%.]) \([^()]*\)$")
"""How a number was found, behind it: "42 (6 * 7)"."""
_MARKERS_BACKWARDS = re.compile(
    r"\A\s*+\.?\s*+(?:\]\d++(?:[ \t]*+[,;][ \t]*+\d++)*+\[[ \t]*+(?:(?:[,;&]|dna[ \t])[ \t]*+(?=\]))?+)++"
)
"""Markers at the end of a text that is written backwards, where "and" is "dna"."""
_SEVERAL = re.compile(r"\d[ \t]*[,;]")
_MARKUP = " \t\n*_`\"'\u201c>#-"


def abstains(text: str) -> bool:
    """Whether an answer says that the passages do not hold it, perhaps behind "Answer:"."""
    said = (text, *_ANSWER_LINE.findall(text)[-1:])
    return any(" ".join(each.split()).lstrip(_MARKUP).startswith(ABSTENTION.rstrip(".")) for each in said)


def extract_phrase(text: str) -> str:
    """The phrase after the last "Answer:", preferably at the start of a line; else after "answer is"; else the last
    line."""
    for pattern in (_ANSWER_LINE, _ANSWER_INLINE):
        found = [phrase for phrase in (str(m.group(1)).strip() for m in pattern.finditer(text)) if phrase]
        if found:
            return _trim(found[-1])
    phrases: list[str] = _ANSWER_PHRASE.findall(text)
    if phrases:
        return _trim(phrases[-1])
    filled = [line.strip() for line in text.splitlines() if line.strip()]
    return _trim(filled[-1]) if filled and not _ANSWER_LINE.fullmatch(filled[-1]) else ""


def extract_short(text: str) -> str:
    """The phrase, and of "Yes, both were born in France" the word alone.

    A yes or no with fewer than four words behind it stays, because it may be a title: "Yes, Prime Minister".
    """
    phrase = extract_phrase(text)
    verdict = _VERDICT.match(phrase)
    return phrase if verdict is None else verdict.group(1)


def _trim(phrase: str) -> str:
    return _uncited(phrase.strip()).strip("*_`\"'“”").rstrip(".").strip()


def _uncited(phrase: str) -> str:
    """The phrase without markers at its end, such as [1][2] or [1, 2] and [3]. A list stays: "the interval [0, 1]"."""
    markers = _MARKERS_BACKWARDS.match(phrase[::-1])
    if markers is None:
        return phrase
    rest = phrase[: -markers.end()].rstrip()
    cut = phrase[len(rest) :]
    if _SEVERAL.search(cut):
        first = len(rest) + cut.index("[")
        if not rest or all(start != first for start, _, _ in marker_runs(phrase, most=0)):
            return phrase
    return rest


def extract_letters(text: str) -> str:
    """The chosen option letters A to H, sorted and without repeats, e.g. "AC"."""
    phrase = extract_phrase(text).replace("*", "")
    joined = _LETTERS.match(phrase)
    if re.fullmatch(r"[a-h]", phrase):
        return phrase.upper()
    letters: list[str] = (
        re.findall(r"[A-H]", joined.group(1)) if joined else re.findall(r"(?<![A-Za-z])[A-H](?![A-Za-z])", phrase)
    )
    return "".join(sorted(set(letters)))


def extract_number(text: str) -> str:
    """The last number of the last box, else of the answer phrase, else of the text, without thousands separators and
    currency. A box is LaTeX's, as models write it that have learnt from mathematics."""
    plain = _GROUPED.sub(lambda found: re.sub(r"\D", "", found.group()), text.replace("\u2212", "-"))
    for place in (*_BOXED.findall(plain)[-1:], _REMARK.sub("", extract_phrase(plain)), plain):
        numbers: list[str] = _NUMBER.findall(place)
        if numbers:
            return re.sub(r"[,$€£¥]", "", numbers[-1])
    return ""


TEXT = AnswerForm(
    "text",
    "Answer fully but briefly, in plain prose.",
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
    "Write an article in Markdown: a title after '# ', and then at least three parts, each with a subtitle after '## ' "
    "and one or two paragraphs of full sentences below it. Be exact about names and dates. Write the article only, "
    "about 400 words.",
    str.strip,
    final_pass=False,
    usual=600,
    outlined=True,
)

FORMS: dict[str, AnswerForm] = {form.name: form for form in (TEXT, PHRASE, CHOICE, NUMBER, PROGRAM, PAL, PLAN, ARTICLE)}
