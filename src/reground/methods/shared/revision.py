"""Revision of a text with evidence: the calls that RAT and RaR share, and what a reply makes of the text.

It makes another text, no change, nothing that is left of it, or an accident.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from reground.core.answers import Answer, AnswerForm, Thought
from reground.core.code_blocks import code_blocks
from reground.core.language import LEAST_REPLY, Reply, tokens_of
from reground.core.run import Run
from reground.methods.shared.evidence import Evidence
from reground.methods.shared.prompts import cite, render
from reground.methods.shared.settings import Retrieving, require
from reground.methods.shared.steps import join_steps, split_answer, split_steps, squeezed
from reground.text.alignment import ALIKE, content, similarity, with_lost_steps
from reground.text.excerpts import terms
from reground.text.layout import TEXT_WORDS, is_code, names_itself
from reground.text.queries import clean_query
from reground.text.sentences import sentences

_UNCHANGED = re.compile(
    r"\A\W*+(?:no|none|kein\w*+|nicht\w*+|aucune?|sin|无需?|不需?要?|没有?)\W*+(?:\w++\W++){0,2}?"
    r"(?:chang|modif|correct|edit|revis|änder|korrek|cambio|修改|更改|改动|变化)[^.。!]{0,40}[\W]*+",
    re.IGNORECASE,
)
"""NO CHANGE, which the prompts ask for, as models spell it out and translate it; one short sentence."""
DELETED = "DELETE"
"""The reply that prompts ask for where nothing in a text is right."""
_MARKER = re.compile(r"\[\d[\d, ]*\]|\bpassages?\s+\d+", re.IGNORECASE)
_DIGITS = re.compile(r"\d+")
_SOURCES = re.compile(r"\A\W*+(?:(?:the|none of the|no) )?(?:\w+ )?(?:passages?|documents?|sources?)\b", re.IGNORECASE)
_NAME = re.compile(r"(?<=[\w,] )[^\W\d_a-zß-öø-ÿ]\w++")
"""A word with a capital inside a sentence."""
_NOTE = re.compile(r"\A\W*+(?:note|remark|notes|hinweis|anmerkung|注|说明)[*_ ]*[:：]", re.IGNORECASE)
_LABEL = re.compile(r"\A\W*+(?:step\s*+)?+\d++\s*+[.:)]", re.IGNORECASE)
_ABOUT = frozenset(map(str.casefold, TEXT_WORDS))
_NEAREST = 8
"""Steps before another that its prompts show, of a given draft, which may be long."""
_SHORT = 3
"""Letters of words that are the same in many texts of a language: "and", "und", "les"."""
_NUMBER = re.compile(r"^\W*+(?:step\s*+)?+\d++\s*+[.:)]\s*+")
_LOOP = 3
_TASK = 20  # minimum length in characters of a template's first or last line for recognising it in a reply


@dataclass(frozen=True, kw_only=True)
class Revising(Retrieving):
    """Settings of a method that revises a draft with retrieved evidence.

    k: passages per query; the papers show one at a time, which keeps prompts short.
    max_tokens: maximum tokens of a draft, a revision or an answer. query_tokens: maximum tokens of a query.
    """

    k: int = 1
    query_tokens: int = 64


@dataclass(frozen=True, kw_only=True)
class RevisingDraft(Revising):
    """Settings of a method that revises a draft step by step.

    draft: a text to revise in place of the model's own draft, or its steps, which are revised one by one and never
        joined; empty lets the model write the draft.
    settled: of a draft given in steps, the numbers, from 0, of those that stay as they are and are only read.
    """

    draft: str | tuple[str, ...] = ""
    settled: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        steps = range(len(self.draft)) if self.in_steps else ()
        require(all(number in steps for number in self.settled), "settled must be numbers of steps of the draft")

    @property
    def in_steps(self) -> bool:
        """Whether the draft is given in steps."""
        return bool(self.draft) and not isinstance(self.draft, str)


C = TypeVar("C", bound=Revising)
D = TypeVar("D", bound=RevisingDraft)


class Solving(Generic[C]):
    """One question: its evidence, and the markers of the passages that revisions have read."""

    def __init__(self, config: C, question: str, run: Run) -> None:
        self.config, self.question, self.run = config, question, run
        self.evidence = Evidence()
        self.read: list[int] = []

    async def write(
        self, prompt: str, run: Run, *, name: str, least: int = LEAST_REPLY, tokens: int | None = None
    ) -> Reply:
        """A reply. least: the fewest tokens that are of use. tokens: the most; `max_tokens` by default."""
        sampling = self.config.sampling(tokens)
        (reply,) = await run.generate(self.config.model, prompt, name=name, sampling=sampling, least=least)
        return reply

    async def query(self, template: str, run: Run, source: str, **values: str) -> str:
        """ToQuery: a call of the model; for code the draft itself is the query (RAT, appendix B)."""
        if self.config.form.draft_is_query:
            return source
        prompt = render(template, question=self.question, **values)
        reply = await self.write(prompt, run, name="query", tokens=self.config.query_tokens)
        return clean_query(reply.text, fallback=source)

    async def revised(
        self,
        template: str,
        before: str,
        markers: Sequence[int],
        run: Run,
        /,
        *,
        name: str,
        uses: int = 1,
        context: str = "",
        deletions: Collection[str] = (),
        **values: str,
    ) -> str | None:
        """The revision of the text before; None if the reply is of no use and the text stays.

        uses: as in `Evidence.fill`. context: more text whose markers the revision may use. deletions: as in `accepted`.
        values: the template's places beside question, passages and cite.
        """
        form, size = self.config.form, tokens_of(before)
        values |= {"question": self.question, "cite": cite(form)}
        tokens = self.config.passage_tokens
        prompt = self.evidence.fill(template, values, markers, run, tokens=tokens, uses=uses, reply=size)
        sources = self.evidence.in_prompt
        reply = await self.write(prompt, run, name=name, least=size)
        text = accepted(reply, run, form, template=template, before=before, deletions=deletions)
        if text is None:
            return None
        self.read += [marker for marker in sources if marker not in self.read]
        markers_before = self.evidence.markers_in(f"{context}\n{before}", form)
        return self.evidence.checked(text, run, form, markers=[*sources, *markers_before])

    def answer(self, text: str, steps: Sequence[Thought], *, quote: bool = False) -> Answer:
        """The text as an answer, proposed. quote: whether it may begin with quotations."""
        form, sources = self.config.form, self.read
        return self.run.propose(self.evidence.answer(text, self.run, form, sources=sources, steps=steps, quote=quote))


class SolvingDraft(Solving[D]):
    """One question of a method that revises a draft step by step."""

    async def draft(self, prompt: str) -> tuple[str, list[str]]:
        """The draft, given or else the model's reply to the prompt; and its steps, if it is given in steps."""
        config, form = self.config, self.config.form
        if config.draft:
            texts = [config.draft] if isinstance(config.draft, str) else config.draft
            steps = [self.evidence.checked(text, self.run, form) for text in texts]
            return join_steps(steps), steps if config.in_steps else []
        reply = await self.write(prompt, self.run, name="draft")
        draft = self.evidence.checked(readable(reply, form), self.run, form)
        if reply.finish_reason == "length":
            self.run.note("draft cut", kept=draft)
        return draft, []

    async def query(self, template: str, run: Run, source: str, **values: str) -> str:
        """As elsewhere; but a short answer that is given has nothing to look up, and the question is the query."""
        if self.config.in_steps and self.config.form.final_pass:
            return self.question
        return await super().query(template, run, source, **values)

    def before(self, steps: Sequence[str]) -> str:
        """The steps before another as its prompts show them: of a draft given in steps, the nearest ones."""
        return join_steps(steps[-_NEAREST:] if self.config.in_steps else steps)


def accepted(
    reply: Reply, run: Run, form: AnswerForm, *, template: str, before: str, deletions: Collection[str] = ()
) -> str | None:
    """The revised text; None if the reply was cut or has no text, and the earlier text stays. A note says why.

    It is the text before if nothing has to be changed.

    template: the template of the prompt, whose labels small models repeat. before: the text under revision; its lines
    never count as the template's. Empty where the reply is an answer of its own. deletions: the replies
    that take the text away: `DELETED`, and "" where an empty reply can mean nothing else.
    """
    whole = readable(reply, form)
    text, behind = without_echo(whole, template, before)
    if not form.draft_is_query:
        text = _without_remarks(text, before, form)
    elif before.strip() and not code_blocks(before):  # the code before stands in no fence
        text = "\n\n".join(body.strip("\n") for _, body in code_blocks(text)) or text
    is_cut = reply.finish_reason == "length" and not behind and whole == reply.text.strip()
    if _deletes(text) or not text:
        word = DELETED if text else ""
        if word in deletions and not reply.reasoning and not is_cut:
            run.note("text deleted", text=before)
            return ""
        if not text or before.strip():
            run.note("revision empty", kept="the text before")
            return None
    if before.strip() and not is_cut and (_is_unchanged(text, form) or is_remark(text, before, form)):
        run.note("nothing to change", kept="the text before", written=text)
        return before.strip()
    if behind:
        run.note("echo cut", kept=text, left_out=behind)
    elif is_cut:
        run.note("revision cut", kept="the text before", written=text)
        return None
    elif reply.finish_reason == "length":
        run.note("loop cut", kept=text)
    return _by_parts(text, before, form) if before.strip() else text


def is_word(text: str, word: str) -> bool:
    """Whether a reply is this word of the prompt and nothing else, whatever its case and its marks."""
    letters = word.replace(" ", "").casefold()
    return re.sub(r"[\W_]+", "", text).casefold() in {letters, f"{letters}s"}


def _deletes(text: str) -> bool:
    """Whether a reply is DELETE, perhaps with a reason behind a colon or a dash."""
    return is_word(re.split(r"[:：\-–—]", text, maxsplit=1)[0], DELETED)


def _is_unchanged(text: str, form: AnswerForm) -> bool:
    """Whether a reply is NO CHANGE, also behind "Answer:", in other words or in another language."""
    answer = split_answer(text, form)[1].partition(":")[2] if not form.draft_is_query else ""
    parts = [part for part in (answer or text).split("\n\n") if part.strip()]
    return bool(parts) and all(_UNCHANGED.fullmatch(part.strip()) or sound(part) for part in parts)


def _by_parts(text: str, before: str, form: AnswerForm) -> str:
    """The revision, in which NO CHANGE in place of a step means the step before, and DELETE none."""
    parts = text.split("\n\n")
    if not any(_UNCHANGED.fullmatch(part.strip()) or _deletes(part) for part in parts):
        return text
    old = dict(enumerate(split_steps(before, form)))
    steps = [old.get(i, "") if _UNCHANGED.fullmatch(part.strip()) else part for i, part in enumerate(parts)]
    return join_steps([part for part in steps if not _deletes(part)])


def is_remark(text: str, before: str, form: AnswerForm) -> bool:
    """Whether a reply talks about the text before, or of itself, instead of being its revision.

    "The passages do not mention this step" shares few words with the text, and states neither an answer nor a number
    or a name that the text lacks. For a program every reply without code is a remark.
    """
    if form.draft_is_query:
        return is_code(before) and not is_code(text) and not code_blocks(text)
    if not text or _states(text, before, form):
        return False
    if _SOURCES.match(text) and not _SOURCES.match(before):
        return set(_DIGITS.findall(_MARKER.sub("", text))) <= set(_DIGITS.findall(before))
    labelled = _LABEL.match(text) and _LABEL.match(before)  # such as "STEP 3:"
    if labelled or not names_itself(_LABEL.sub("", text)):
        return False
    own = content(split_answer(before, form)[0]).keys()
    words = [word for word in terms(_MARKER.sub("", text)) if word not in _ABOUT - own]
    long = [word for word in words if len(word) > _SHORT or not word.isascii() or not word.isalpha()]
    names = {name for name in _NAME.findall(text) if name not in TEXT_WORDS and name not in before}
    numbers = set(_DIGITS.findall(" ".join(words))) - set(_DIGITS.findall(before))
    return not names and not numbers and similarity(" ".join(long), before) < ALIKE


def _states(text: str, before: str, form: AnswerForm) -> bool:
    """Whether a text states an answer: behind "Answer:", alone, or in a sentence about the answer."""
    if split_answer(text, form)[1]:
        return True
    answer = form.extract(text) if form.final_pass else ""
    if not answer or ("answer is" not in text.lower() and "boxed" not in text):
        return answer != "" and len(text.split()) <= 2
    is_known = answer in before or answer.casefold() in {"yes", "no"}
    return is_known or any(map(str.isupper, answer)) or any(map(str.isdigit, answer))


def _without_remarks(text: str, before: str, form: AnswerForm) -> str:
    """The text without "Here is the revised text:" above it and "Note: I corrected the year." below it."""
    parts = text.split("\n\n") if before.strip() else [text]
    if len(parts) > 1 and parts[0].rstrip("*_ ").endswith((":", "：")) and is_remark(parts[0], before, form):
        parts.pop(0)
    while len(parts) > 1 and (_NOTE.match(parts[-1]) or is_remark(parts[-1], before, form)):
        parts.pop()
    return "\n\n".join(parts)


def readable(reply: Reply, form: AnswerForm) -> str:
    """The reply's text. If the length limit cut it, a loop at its end is removed, as small models fall into.

    Code stays unchanged, because its lines may repeat.
    """
    if reply.finish_reason == "length" and not form.draft_is_query:
        return unlooped(reply.text)
    return reply.text.strip()


def with_lost(text: str, before: str, form: AnswerForm, run: Run, *, first: int) -> str:
    """The revision with the lost ones of the `first` steps of the text before put back in their places."""
    whole, missing = with_lost_steps(split_steps(before, form), split_steps(text, form), first=first)
    if missing:
        run.note("step dropped", steps=[*missing], repair="put back in place")
    return join_steps(whole) if missing else text


def with_all(text: str, before: str, form: AnswerForm, run: Run) -> str:
    """The revision with all lost steps put back. A separate answer is no step.

    Nor is a last step that was the answer (RaR's y^raw) where the revision states one.
    """
    (old, old_answer), (new, answer) = split_answer(before, form), split_answer(text, form)
    steps = split_steps(old, form)
    if answer and not old_answer and form.final_pass:
        steps.pop()
    whole = with_lost(new, join_steps(steps), form, run, first=len(steps))
    return text if whole == new else join_steps([whole, answer])


def with_answer(text: str, before: str, form: AnswerForm, run: Run) -> str:
    """The revision, followed by the separate answer of the text before if it states none itself.

    An answer in its last line counts, as in "The answer is Paris", unless that line is repeated from the reasoning.
    """
    reasoning, answer = split_answer(before, form)
    line = text.strip().rpartition("\n")[2]
    short = form.name in {"choice", "number"} and form.extract(line) != ""
    has_answer = split_answer(text, form)[1] or (line not in reasoning and (short or _states(line, before, form)))
    if not answer or form.draft_is_query or (has_answer and squeezed(text) != squeezed(reasoning)):
        return text
    run.note("answer missing", repair="the answer before put behind it")
    return join_steps([text, answer])


def sound(reflection: str) -> bool:
    """Whether a reflection found no error: its first line is a bare OK, or "no errors"."""
    line = reflection.strip().partition("\n")[0]
    return any(is_word(line, word) for word in ("OK", "okay", "no error", "OK no error"))


def unlooped(text: str) -> str:
    """The text before the first repetition of a sentence that it holds three times or more.

    Sentences that differ only in a step's number are the same.
    """
    parts = sentences(text)
    keys = [_NUMBER.sub("", " ".join(part.split()).casefold()) for part in parts]
    looping = {key for key, count in Counter(keys).items() if key and count >= _LOOP}
    seen: set[str] = set()
    for i, key in enumerate(keys):
        if key in looping and key in seen:
            return "".join(parts[:i]).strip()
        seen.add(key)
    return text.strip()


def without_echo(text: str, template: str, before: str = "") -> tuple[str, str]:
    """The reply without the parts of the prompt that a small model repeats, and what stood behind the first of them.

    Labels, such as "Step to check:", and the task at the start are left out, and everything from a later one on. Of a
    reply that repeats the prompt from its beginning only what follows the task is its own, or what follows the label of
    the text under revision. Lines of the text before never count as the template's.
    """
    own = {line.strip() for line in before.split("\n")}
    template_lines = [line.strip() for line in template.split("\n")]
    labels = {line for line in template_lines if len(line) > 1 and line.endswith(":") and "{" not in line}
    task = task_of(template)
    lines = text.strip().split("\n")
    tasks = [bool(task) and line.strip().startswith(task) and line.strip() not in own for line in lines]
    echoes = [is_task or line.strip() in labels - own for is_task, line in zip(tasks, lines, strict=True)]
    first, fixed = lines[0].strip(), template.strip().partition("\n")[0].partition("{")[0].strip()
    begins = first == fixed or (min(len(first), len(fixed)) >= _TASK and fixed.startswith(first))
    repeats = before.strip() != "" and begins and fixed not in {"", *own}
    behind = 1 + max((i for i, is_task in enumerate(tasks) if is_task), default=-1)
    if (repeats or echoes[0]) and behind and any(map(str.strip, lines[behind:])):
        start = behind  # the whole prompt stands before it
    elif repeats:
        label = next((line for line in reversed(template_lines) if line in labels), "")
        start = max((i + 1 for i, line in enumerate(lines) if line.strip() == label), default=len(lines))
    else:
        start = 0
    while start < len(lines) and (echoes[start] or not lines[start].strip()):
        start += 1
    end = next((i for i in range(start, len(lines)) if echoes[i]), len(lines))
    return "\n".join(lines[start:end]).strip(), "\n".join(lines[end:]).strip()


def task_of(template: str) -> str:
    """The start of the template's last line, up to its first place; empty if too short to be recognised."""
    fixed = template.rstrip().rpartition("\n")[2].partition("{")[0].strip()
    return fixed if len(fixed) >= _TASK else ""
