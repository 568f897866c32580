"""Answers: their forms, their evidence, and the short answer in a reply, be it a phrase, a number or letters.

Models mark an answer in many ways and languages, write numbers with units, years, thousands, powers and fractions, and
argue against the options that they do not choose.
"""

from __future__ import annotations

import json
import math
import re
import unicodedata
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Annotated

from reground.core.code_blocks import extract_program
from reground.core.errors import ConfigurationError
from reground.core.evidence import Passage, marker_runs
from reground.core.language import LATER, Number, Text, Value

_WORDS = (
    r"(?:answer|antwort|antwoord|réponse|respuesta|resposta|risposta|svar|vastaus|válasz|răspuns|απάντηση|ответ|cevap|yanıt"
    r"|பதில்|الإجابة|الجواب)"
)
"""The word for an answer in the languages that an index knows, and below in those that set no spaces."""
_ANSWER_LINE = re.compile(
    rf"(?im)^[ \t>*_#-]*+(?:final\s++)?+{_WORDS}(?:\s++finale?)?+[\s*_]*+(?:is)?+[\s*_]*+[:：][\s*_]*+(.*)$"
)
_ANSWER_INLINE = re.compile(rf"(?im)(?<![^\W_]){_WORDS}[ *]*+[:：]\**+\s++(\S.*)$")
_IS = r"(?:应该|应当|应|就)?+(?:[是为為はは은는：:]|คือ|ແມ່ន|គឺ)[:：]?+"
_ANSWER_UNSPACED = re.compile(
    r"(?:答案|答え|解答|回答|正解|정답|답변|คำตอบ|ຄຳຕອບ|ចម្លើយ|အဖြေ|[答답](?=[은는:：]))[*_ \t]*+"
    rf"(?:[】\]』」）)][*_ \t]*+(?:{_IS})?+|{_IS})[\s*_]*+([^\n。]+?)(?=(?:です|である|입니다)?\.?(?:[。\n]|\Z))"
)
_ANSWER_TAG = re.compile(r"(?i)<(?:final_)?answer>")
_ANSWER_FIELD = re.compile(
    r"""(?i)["'](?:final[_ ]?)?answer["']\s*+:\s*+"""
    r"""("(?:[^"\\]|\\.){0,999}+"|'[^'\n]{0,999}+'|\[[^]\n]{0,999}+\]|[^]\s,}]++)"""
)
_ANSWER_IS = re.compile(
    r"(?i)\b(?:answer is|answers are|antwort (?:ist|lautet)|antwoord is|réponse est|respuesta es|resposta é|risposta è"
    r"|svaret (?:är|er)|vastaus on|răspunsul este|απάντηση είναι)\b(?:\s++(?:therefore|thus|hence)\b,?)?+:?\s++(?=\S)"
)
_BOXED = re.compile(r"\\(?:boxed|fbox)\{((?:[^{}]++|\{(?:[^{}]++|\{[^{}]*+\})*+\})*+)\}")
_LATEX = re.compile(r"\\(?:text\w*|mathrm|mathbf|mbox)\{([^{}]*+)\}|\\[()\[\]]|\\(?=[%$&#_])")
_BULLET = re.compile(r"\A[-•] ++(?=[^\W\d])")
_STOP = re.compile(r"\.(?=\s|$)|[\n。]")
_OPENER = re.compile(r"\A\s*+(?:a|an|as|because|both|he|i|in|it|she|so|that|the|they|this)\b(?!\.)", re.IGNORECASE)
_NAMES = re.compile(r"\A\s*+[A-Z\d][\w'’-]*+(?:[ ,]++(?:[A-Z\d][\w'’-]*+|and|de|of|the|von))*+\s*+(?:[.\n]|\Z)")
_VERDICT = re.compile(
    r"(?i)(yes|no)[*_]*(?:(?:[,;:]|\.(?!\s*\d))[*_]*(?:\s++\S++){4}|\s++[-–—]\s++\S++(?:\s++\S++){2}|\s++\([^\s)]++\s++\S)"
)
_NEAR_POINT = 40
_MARKERS_BACKWARDS = re.compile(
    r"\A\s*+\.?\s*+(?:\]\d++(?:[ \t]*+[,;][ \t]*+\d++)*+\[[ \t]*+(?:(?:[,;&]|dna[ \t])[ \t]*+(?=\]))?+)++"
)
"""Markers at the end of a text that is written backwards, where "and" is "dna"."""
_SEVERAL = re.compile(r"\d[ \t]*[,;]")


def extract_phrase(text: str) -> str:
    """The phrase that a reply marks as its answer, else the one after "the answer is", else the last line.

    Marks are <answer>, a JSON field "answer", the last "Answer:", preferably at the start of a line and in any language
    that an index knows, and LaTeX's box.
    """
    phrase = marked_answer(text) or _sentence_answer(text)
    if phrase is not None:
        return trim(phrase)
    filled = [line.strip() for line in text.splitlines() if line.strip()]
    return trim(filled[-1]) if filled and not _ANSWER_LINE.fullmatch(filled[-1]) else ""


def extract_short(text: str) -> str:
    """The phrase, and of "Yes, both were born in France" the word alone.

    A yes or no with fewer than four words behind it stays, because it may be a title: "Yes, Prime Minister".
    """
    phrase = extract_phrase(text)
    verdict = _VERDICT.match(phrase)
    return phrase if verdict is None else verdict.group(1)


def marked_answer(text: str) -> str | None:
    """What a reply marks as its answer; None without a mark."""
    tagged = _ANSWER_TAG.split(text)[1:]
    if tagged and (inner := tagged[-1].partition("</")[0].strip()):
        return marked_answer(inner) or inner.rpartition("\n")[2]
    for field in _ANSWER_FIELD.findall(text)[-1:]:
        try:
            value = json.loads(field)
        except ValueError:
            return str(field).strip("'")
        if isinstance(value, bool):
            return "yes" if value else "no"
        return ", ".join(map(str, value)) if isinstance(value, list) else value if isinstance(value, str) else field
    for pattern in (_ANSWER_LINE, _ANSWER_INLINE, _ANSWER_UNSPACED, _BOXED):
        phrases = [phrase for phrase in map(str.strip, pattern.findall(text)) if phrase]
        if phrases:
            return phrases[-1]
    return None


def _sentence_answer(text: str) -> str | None:
    """The rest of the sentence after the last "answer is"."""
    starts = [match.end() for match in _ANSWER_IS.finditer(text)]
    if not starts:
        return None
    rest = text[starts[-1] :]
    ends = (stop.start() for stop in _STOP.finditer(rest) if not _abbreviates(rest, stop.start()))
    return rest[: next(ends, len(rest))]


def _abbreviates(text: str, at: int) -> bool:
    """Whether a point is that of "Mt. Fuji", "John F. Kennedy", "Apple Inc. was" or "Warner Bros. Pictures".

    A capital, or a capital and consonants, stand for a longer word, unless a sentence begins behind them. So does a
    word of up to four letters with a capital before a small letter, a number, or names that end the sentence.
    """
    word = re.split(r"[\W\d_]", text[max(0, at - _NEAR_POINT) : at])[-1]
    rest = text[at + 1 : at + 1 + 2 * _NEAR_POINT]
    after = rest.lstrip()[:1]
    if text[at] != "." or not word or not after or "\n" in rest[: len(rest) - len(rest.lstrip())]:
        return False
    if after == "(":
        return True
    if after.isalpha() and (len(word) == 1 or re.fullmatch(r"[A-Z][b-df-hj-np-tv-xz]{1,3}", word)):
        return _OPENER.match(rest) is None or (text[at - 2 : at - 1] == "." and after.islower())
    if word.islower():
        return after.isdigit() and len(word) <= 3
    names = len(text[:at].split()) <= 3 and _NAMES.match(rest)
    return word[0].isupper() and len(word) <= 4 and (after.islower() or after.isdigit() or bool(names))


def trim(phrase: str) -> str:
    """The phrase without markup, LaTeX around its words, markers of passages and the point at its end."""
    for boxed in _BOXED.findall(phrase)[-1:]:
        phrase = boxed
    phrase = _BULLET.sub("", _LATEX.sub(r"\1", phrase).strip())
    phrase = phrase[1:-1].strip() if phrase[:1] == phrase[-1:] == "$" else phrase
    if markers := _MARKERS_BACKWARDS.match(phrase[::-1]):
        rest = phrase[: -markers.end()].rstrip()
        first = phrase.index("[", len(rest))
        # A list stays: "the interval [0, 1]".
        is_list = _SEVERAL.search(phrase, first) and (
            not rest or all(start != first for start, _, _ in marker_runs(phrase, most=0))
        )
        phrase = phrase if is_list else rest
    return phrase.strip("*_`\"'“”「」『』").rstrip(".。").strip()


_GROUPED = re.compile(r"(?<![\d.,])\d{1,3}(?:(?:\{,\}|\\[,;:! ]|[ \u00a0\u2009\u202f'’])\d{3})+(?!\d)")
"""A number whose thousands LaTeX, a space or an apostrophe sets apart, as in 12{,}000 and 12 000."""
_RAISED = re.compile(r"(?<=\d)[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+")
_VULGAR = re.compile("[¼-¾⅐-⅞]")
_REWRITTEN: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\\(?:text|mathrm|mathbf|mbox)\{([^{}]*+)\}"), r"\1"),
    (re.compile(r"(?<=\d)(?=\\[dt]?frac)"), " "),
    (re.compile(r"\\[dt]?frac\{([^{}]++)\}\{([^{}]++)\}"), r"\1/\2"),
    (re.compile(r"\\[dt]?frac(\d)(\d)"), r"\1/\2"),
    (re.compile(r"(?<=\d) ?(?:\*\*|\^) ?(?=[-+({\d])"), "^"),
    (re.compile(r"\^[{(]([-+]?\d++)[})]"), r"^\1"),
    (re.compile(r"(?<=\d) ?(?:\\times|\\cdot|[×·⋅*xX]) ?(?=10\^)"), "×"),
    (re.compile(r"\\(?=[%$])|(?<=[$€£¥]) (?=\d)"), ""),
)
WIDE = {code + 0xFEE0: code for code in range(0x21, 0x7F)} | {0x2212: "-", 0x2044: "/"}
"""Signs as wide as Chinese ones, a minus and the stroke of a fraction, as those of ASCII."""
_DIGITS = (
    r"(?:\d{1,3}(?:\.\d{3})++,\d++|\d{1,3}(?:\.\d{3}){2,}+(?![\d,])|\d++,\d{1,2}(?![\d,])|\d[\d,]*+(?:\.\d++)?|\.\d++)"
    r"(?:[eE][-+]?\d++)?"
)
"""12.345,6 and 1.234.567, then 12,5, then 1,234.5 and .5: a comma before one or two digits sets no thousands apart."""
_NUMBER = re.compile(
    r"(?P<sign>(?:(?<![\w.)$%^])[-+]|(?<=[$€£¥])-)?)(?:[$€£¥]|(?<![A-Za-z_^\d])(?<!\d[.,/])(?<!\^[-+]))"
    rf"(?P<digits>{_DIGITS})"
    r"(?:×10\^(?P<ten>[-+]?\d++)|\^(?P<power>[-+]?\d++)"
    rf"| ?/ ?(?P<below>{_DIGITS})(?! ?[/\d])| (?P<above>\d++)/(?P<under>\d++)(?! ?[/\d]))?"
)
"""A number that is no part of a name, as in CO2, and no power of a unit, as in m^2."""
_ANY = re.compile(r"\d++")
_LARGEST = 300
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_DATED = re.compile(r"\b(?:in|by|of|since|from|until|year) $", re.IGNORECASE)
_DATE = re.compile(r"\A\s*+(?:[年년.,;:)]|$)")
_BESIDE = re.compile(
    r"\b(?:in|on|at|of|per|from|than|over|after|since|until|before|within|during|around|every|each)(?: [a-z]++){0,2} $"
)
_NEAR_NUMBER = 40
_REMARK = re.compile(r"(?<=\S) ?\([^()]*+\)$")  # how a number was found, behind it: "42 (6 * 7)"


def extract_number(text: str) -> str:
    """The number of the answer phrase, else of the text, in digits without thousands separators, currency and unit.

    Powers and fractions are worked out: "3/4" is "0.75".
    """
    text = _VULGAR.sub(lambda match: f" {unicodedata.normalize('NFKC', match[0])}", text).translate(WIDE)
    text = _GROUPED.sub(lambda match: re.sub(r"\D", "", match[0]), text)
    text = _RAISED.sub(lambda match: "^" + unicodedata.normalize("NFKC", match[0]).replace("\u2212", "-"), text)
    for pattern, replacement in _REWRITTEN:
        text = pattern.sub(replacement, text)
    return _number_in(extract_phrase(text)) or _number_in(text)


def _number_in(phrase: str) -> str:
    """The number that a phrase states, without thousands separators and currency; empty if none.

    This is the last one, without years and what stands in brackets behind it; of a phrase that begins with a number the
    first one, where all others only describe it: "42 dollars in 3 days".
    """
    numbers = list(_NUMBER.finditer(_REMARK.sub("", phrase))) or list(_NUMBER.finditer(phrase))
    numbers = [each for each in numbers if not _is_year(each)] or numbers
    if not numbers:
        parts: list[str] = _ANY.findall(phrase)
        return parts[-1] if parts else ""
    begins = not any(map(str.isalnum, phrase[: numbers[0].start()]))
    described = all(_BESIDE.search(phrase[max(0, each.start() - _NEAR_NUMBER) : each.start()]) for each in numbers[1:])
    return _format(numbers[0] if begins and described else numbers[-1])


def _is_year(number: re.Match[str]) -> bool:
    text, start, end = number.string, number.start(), number.end()
    dated = text.startswith(("年", "년"), end) or _DATED.search(text[max(0, start - _NEAR_NUMBER) : start])
    return bool(_YEAR.fullmatch(number[0]) and dated and _DATE.match(text[end : end + _NEAR_NUMBER]))


def _format(number: re.Match[str]) -> str:
    plain = _decimal(number["digits"])
    value, raised = float(plain), number["ten"] or number["power"]
    try:
        if raised:
            power = math.copysign(min(abs(float(raised)), _LARGEST), float(raised))
            value = value * 10**power if number["ten"] else value**power
        elif number["below"]:
            value /= float(_decimal(number["below"]))
        elif number["above"]:
            value += int(number["above"][:9]) / int(number["under"][:9])
        else:
            return number["sign"] + plain
    except (OverflowError, ZeroDivisionError):
        return number["sign"] + plain
    return f"{number['sign']}{value:.12g}"


def _decimal(digits: str) -> str:
    """Digits with a point before decimals, if any, and no other separators."""
    comma = re.match(r"\A(?:\d{1,3}(?:\.\d{3})++(?:,\d++)?|\d++,\d{1,2})\Z", digits)
    if comma and (digits.count(".") > 1 or "," in digits):
        return digits.replace(".", "").replace(",", ".")
    return digits.replace(",", "")


_BETWEEN_LETTERS = r"(?:\s*+|[)）.]*+\s*+(?:[,、;；/&+和及与與と]|and\b)++(?:\s*+and\b)?\s*+|[)）]\s*+(?=[(（]))[(（]*+"
"""A closed bracket needs a comma, "and" or another bracket behind it: in "A) E. coli" one option is chosen."""
_OPTION = r"(?:[A-HJ]|I(?! [a-z]|['’]))"  # "I think" chooses nothing
_OPTIONS = rf"(?<![A-Za-z]){_OPTION}(?:{_BETWEEN_LETTERS}{_OPTION})*(?![A-Za-z])"
_LETTERS = re.compile(_OPTIONS)
_SMALL_LETTERS = re.compile(
    rf"(?:\A[^\w\n]*+|\b(?:options?|choices?|is) \(?|\()([a-j](?:{_BETWEEN_LETTERS}[a-j])*)(?:[).:](?!\w)|[^\w\n]*+\Z)"
)
_LETTERS_ALONE = re.compile(rf"(?m)^[^\w\n]*+({_OPTIONS}|[a-j])[^\w\n]*+$")
_LETTERS_CHOSEN = re.compile(rf"(?<![不没])[选選](?![项項])[择擇]?[^\w\n]*+(?:选项|選項)?[^\w\n]*+({_OPTIONS})")
_OPTION_LINE = re.compile(r"(?m)^[^\w\n]*+([A-J])[.):：、](?!\w)")
_CHINESE = re.compile(r"[\u4e00-\u9fff]")
_REASON = re.compile(r"\b(?:because|since|whereas|while)\b|因为|由于|而(?!非)")
_ARTICLE = re.compile(r" (?!(?:is|are|was|were|and|or|nor|but|because|since|as|has|would|seems)\b)[a-z]")
_DENIED_BEFORE = re.compile(
    r"(?:(?i:\b(?:not|nor|neither|than|over|except|excluding|without|instead of)\b|n['’]t)"
    r"|不选|不是|不为|[并而]非|排?除)[^\w\n]*+(?:(?:be|the|options?|choices?)[^\w\n]++)*+(?:选项)?\Z"
)
_DENIED_AFTER = re.compile(
    r"\A[^\w\n]*+(?:(?:is|are|was|were)(?:n['’]t| (?:\w++ly )?(?:not|wrong|incorrect|false)\b)"
    r"|can be (?:ruled|eliminated)|[^\s，。；,;.A-J]{0,6}?(?:错|不正确|不对|不符|不选|有误))"
)
_NEAR_LETTER = 40


def extract_letters(text: str) -> str:
    """The chosen option letters A to J, sorted and without repeats, e.g. "AC".

    They are those in the marked answer. Without a mark they are those after "the answer is", those that are chosen in
    Chinese, those of a line without a word, or of the option with which a reply begins, and then those that the last or
    else the first line ends with, or in Chinese names, and does not deny.
    """
    text = text.translate(WIDE).replace("*", "")
    answer = marked_answer(text)
    places = [answer if answer is not None else _sentence_answer(text) or "", *_LETTERS_CHOSEN.findall(text)[-1:]]
    lines = [line for line in text.splitlines() if line.strip()] if answer is None else []
    if lines:
        options = _OPTION_LINE.findall(text) if _OPTION_LINE.match(lines[0]) else []
        places += [*_LETTERS_ALONE.findall(text)[-1:], *(options if len(options) == 1 else [])]
    groups = next(filter(None, (_letters(trim(place))[:1] for place in places)), [])
    for line in (*lines[-1:], *lines[:1]):
        if not groups:  # of "A or rather B" the last ones; in Chinese all
            groups = _letters(line)
            whole, begins = _CHINESE.search(line), _OPTION_LINE.match(line)
            groups = groups if whole else groups[:1] if begins else groups[-1:]
    return "".join(sorted(set(re.sub(r"and|[^a-jA-J]", "", "".join(groups)).upper())))


def _letters(phrase: str) -> list[str]:
    """The groups of letters in the first part of a phrase that names some and does not deny them."""
    for part in _REASON.split(phrase):
        groups = [
            group
            for group in _LETTERS.finditer(part)
            if not _DENIED_BEFORE.search(part[max(0, group.start() - _NEAR_LETTER) : group.start()])
            and not _DENIED_AFTER.match(part[group.end() : group.end() + _NEAR_LETTER])
        ]
        articles = [group for group in groups if group[0] == "A" and _ARTICLE.match(part, group.end())]
        if groups:
            return [group[0] for group in groups if group not in articles or len(groups) == 1]
    return _SMALL_LETTERS.findall(phrase)


ABSTENTION = "Not in these passages."
"""What a model writes for an answer that the passages do not hold."""


class Citation(Value):
    """A cited passage.

    marker: its number, in square brackets in the text. line, page: where its quote begins in the file, from 1, if that
    is known. heading: the headings that the quote stands under, outermost first, with > between them. fragment: the id
    of the nearest heading of an HTML page that has one, for a link. place: where the quote is in a file without lines
    and pages, such as "slide 3" or "Sheet1, row 14". fetched: when a page of the web was fetched, as ISO 8601 in UTC.
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
    place: Annotated[Text, LATER] = ""
    fetched: Annotated[Text | None, LATER] = None

    @classmethod
    def of(cls, marker: int, passage: Passage, quote: str | None = None) -> Citation:
        """A citation of a passage, whose white space in the quote is made plain; without a quote, of its opening."""
        return cls(
            marker=marker,
            passage_id=passage.id,
            title=passage.title,
            url=passage.url,
            quote=opening(passage) if quote is None else " ".join(quote.split()),
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
    quoted: what the model copied from passages before it answered, letter by letter and as it stands there.
    misquoted: what it put in quotation marks there, and no passage has.
    """

    text: Text
    citations: tuple[Citation, ...] = ()
    shown: tuple[Citation, ...] = ()
    steps: tuple[Thought, ...] = ()
    sentences: tuple[Sentence, ...] = ()
    quoted: Annotated[tuple[Citation, ...], LATER] = ()
    misquoted: Annotated[tuple[Text, ...], LATER] = ()

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

    def in_language_of(self, question: str) -> AnswerForm:
        """The form that names the question's language where the script tells it: small models else write English."""
        language = _language_by_script(question) or _THE_LANGUAGE
        return replace(self, instruction=self.instruction.replace(_THE_LANGUAGE, language))

    def instructed(self, text: str) -> AnswerForm:
        """The form with what its reader says of how the answer is to be written. Raises ConfigurationError."""
        if len(text) > MOST_INSTRUCTIONS:
            raise ConfigurationError(f"the instructions have more than {MOST_INSTRUCTIONS:,} characters")
        more = f"\n\n{_INSTRUCTIONS}\n<instructions>\n{text}\n</instructions>"
        return replace(self, instruction=self.instruction + more, bare=self.bare and self.bare + more)


_THE_LANGUAGE = "the language of the question"
_SCRIPTS = {"HIRAGANA": "Japanese", "CJK": "Chinese", "HANGUL": "Korean", "THAI": "Thai", "GREEK": "Greek"}
"""Scripts that one language has, by the first word of their letters' names in Unicode."""


def _language_by_script(text: str) -> str:
    """The English name of the language in whose own script most letters are; empty where the script tells none."""
    scripts = Counter(unicodedata.name(letter, "?").split()[0] for letter in text if letter.isalpha())
    if scripts["HIRAGANA"]:  # Japanese is written in three scripts, and this one is in every sentence
        scripts["HIRAGANA"] += scripts.pop("KATAKANA", 0) + scripts.pop("CJK", 0)
    return _SCRIPTS.get(max(scripts, key=scripts.__getitem__, default=""), "")


MOST_INSTRUCTIONS = 8000
_INSTRUCTIONS = (
    "Below, the reader says how the answer is to be written, such as its language, length and tone. Follow it in the "
    "answer. It is no source of facts, and changes nothing of what is asked above."
)


_MARKUP = " \t\n*_`\"'\u201c>#-"


def abstains(text: str) -> bool:
    """Whether an answer says that the passages do not hold it, perhaps behind "Answer:"."""
    places = (text, marked_answer(text) or "")
    return any(" ".join(each.split()).lstrip(_MARKUP).startswith(ABSTENTION.rstrip(".")) for each in places)


TEXT = AnswerForm(
    "text",
    f"Answer fully but briefly, in plain prose and in {_THE_LANGUAGE}.",
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
