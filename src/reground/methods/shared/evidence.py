"""Evidence in prompts, and answers with what they cite and what they were written from."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from reground.core.answers import Answer, AnswerForm, Citation, Thought, marked_answer
from reground.core.errors import IndexRefused, RetrievalError
from reground.core.evidence import Passage, Retriever, cited_markers, without_unknown
from reground.core.language import tokens_of
from reground.core.run import Run
from reground.core.trajectory import UNGROUNDED
from reground.core.untrusted import fence
from reground.methods.shared.prompts import CITING, render
from reground.methods.shared.steps import split_answer
from reground.text.quotations import LEAST_BARE, MOST, copied, is_long, quotations
from reground.text.sentences import sentences

LEAST_PASSAGE = 64
"""Minimum length of a cut passage in tokens, as long as another passage can be left out instead."""

USUAL_REPLY = 64
"""Tokens reserved for a reply beside the passages of its prompt."""

USUAL_PASSAGE = "passage " * 40
"""Stands for a passage where a prompt is measured before its passages are found."""


@dataclass
class Evidence:
    """All passages that one question has seen. Each keeps its number, so that [3] means the same everywhere."""

    passages: list[Passage] = field(default_factory=list)
    in_prompt: list[int] = field(default_factory=list)
    """The markers in the latest filled prompt."""
    _cuts: dict[int, int] = field(default_factory=dict)
    _numbers: dict[str, int] = field(default_factory=dict)
    _unknown: set[int] = field(default_factory=set)

    def add(self, passages: Iterable[Passage]) -> list[int]:
        """Number the passages; known ones keep their number. Returns their markers, each once."""
        markers = []
        for passage in passages:
            if passage.id not in self._numbers:
                self.passages.append(passage)
                self._numbers[passage.id] = len(self.passages)
            markers.append(self._numbers[passage.id])
        return list(dict.fromkeys(markers))

    @property
    def all(self) -> Sequence[int]:
        """The markers of all passages."""
        return range(1, len(self.passages) + 1)

    def fresh(self, passages: Iterable[Passage]) -> list[Passage]:
        """The passages that have no number yet."""
        return [passage for passage in passages if passage.id not in self._numbers]

    def show(self, markers: Sequence[int], *, tokens: int) -> str:
        """The fenced passages for a prompt, `tokens` tokens each at most, or fewer where `fill` has cut them."""
        cuts = ((marker, min(tokens, self._cuts.get(marker, tokens))) for marker in markers)
        return "\n".join(fence([self.passages[marker - 1]], markers=[marker], tokens=most) for marker, most in cuts)

    def fill(
        self,
        template: str,
        values: Mapping[str, str],
        markers: Sequence[int],
        run: Run,
        *,
        tokens: int,
        reply: int = USUAL_REPLY,
        uses: float = 1,
    ) -> str:
        """A prompt with passages that leave room for the reply. `in_prompt` lists the ones that it shows.

        Long passages are cut until all fit, but not below `LEAST_PASSAGE`: instead the last ones are left out. At
        least one stays, if there is any. A passage keeps its first cut, so that the prompts of a question begin alike
        and a server can reuse what it has read.

        values: the values of the template's other places. tokens: the maximum length of a passage. reply: tokens of
        the reply. uses: how many prompts of this length are still to be read; this one may take 1 / uses of the room.
        """
        limited = run.room() is not None  # without a limit nothing has to be measured
        beside = tokens_of(render(template, passages="", **values)) + reply if limited else 0
        self.in_prompt = self.fit(markers, run, tokens=tokens, beside=beside, uses=uses)
        return render(template, passages=self.show(self.in_prompt, tokens=tokens), **values)

    def fit(self, markers: Sequence[int], run: Run, *, tokens: int, beside: int = 0, uses: float = 1) -> list[int]:
        """The markers whose passages, as `show` now cuts them, fit what the run has left after `beside` tokens."""
        room = run.room()
        if room is None:
            return list(markers)
        most = max(0, int(room / uses) - beside)
        first = list(markers)
        while len(first) > 1 and self._size(first, min(tokens, LEAST_PASSAGE)) > most:
            first.pop()
        lengths = range(min(tokens, LEAST_PASSAGE) if len(first) > 1 else 1, tokens + 1)
        fitting = bisect_right(lengths, most, key=lambda length: self._size(first, length))
        longest = lengths[max(0, fitting - 1)]
        if longest < tokens:
            self._cuts |= {marker: min(longest, self._cuts.get(marker, longest)) for marker in first}
        return first

    def _size(self, markers: Sequence[int], length: int) -> int:
        return tokens_of(self.show(markers, tokens=length)) if markers else 0

    def note_unused(self, run: Run, markers: Sequence[int]) -> None:
        """Note in the trace if passages were found and the text was written from none of them."""
        if self.passages and not markers:
            run.note(UNGROUNDED, why="no revision with what was found was kept")

    def answer(
        self,
        text: str,
        run: Run,
        form: AnswerForm,
        *,
        sources: Iterable[int] | None = None,
        steps: Iterable[Thought] = (),
        quote: bool = False,
    ) -> Answer:
        """An answer with its citations. Markers that name no passage are removed.

        sources: the markers of the passages that it was written from; by default those that the steps cite.
        quote: whether the text may begin with quotations. They become its `quoted` and `misquoted`.
        """
        steps = list(steps)
        sources = [marker for step in steps for marker in step.citations] if sources is None else list(sources)
        text, quotes, misquoted = self._unquoted(text, form, sources) if quote else (text, [], [])
        clean = self.checked(text, run, form)
        markers = list(dict.fromkeys([*(each.marker for each in quotes), *self.markers_in(clean, form)]))
        checked = (step.model_copy(update={"text": self.checked(step.text, run, form)}) for step in steps)
        return Answer(
            text=clean,
            citations=self._cite(markers),
            shown=self._cite(dict.fromkeys([*markers, *sources])),
            steps=tuple(checked),
            quoted=tuple(quotes),
            misquoted=tuple(misquoted),
        )

    def _unquoted(self, text: str, form: AnswerForm, sources: Sequence[int]) -> tuple[str, list[Citation], list[str]]:
        """The text behind its quotations, what they are copied from, and those that no passage has.

        A text of nothing else stays. Small models forget quotation marks: before a marked answer a copied sentence
        counts without them.
        """
        head, answer = split_answer(text, form) if form.final_pass else (text, "")
        if form.final_pass and not answer and "Answer:" in text:
            head, label, answer = text.rpartition("Answer:")
            answer = label + answer
        quotes, rest = quotations(head)
        prose = without_unknown(rest, ())[0]
        parts = sentences(prose) if answer else []
        is_prose = len(parts) <= MOST and any(is_long(each, LEAST_BARE) for each in parts)
        bare = [each for each in parts if is_long(each)] if is_prose else []
        order = dict.fromkeys([*self.markers_in(head, form), *sources, *self.all])
        copies = {each: self._copied(each, order) for each in (*quotes, *bare)}
        citations = list(dict.fromkeys(citation for each in copies.values() for citation in each))
        misquoted = [each for each in quotes if not copies[each]]
        if (bare and all(copies[each] for each in bare)) or not any(map(str.isalnum, prose)):
            rest = ""
        if not copies or rest == head:
            return text, citations, misquoted
        body = "\n".join(filter(None, (rest.strip(), answer.strip())))
        if not body:  # a phrase is the answer, in quotation marks
            return text, [] if form.final_pass else citations, []
        short = "" if rest else marked_answer(body) or ""
        return (short if form.extract(short) == form.extract(body) else body), citations, misquoted

    def _copied(self, quotation: str, markers: Iterable[int]) -> list[Citation]:
        """What a quotation is copied from: the pieces of the first passage that has it."""
        for marker in markers:
            if pieces := copied(quotation, self.passages[marker - 1].text):
                return [Citation.of(marker, self.passages[marker - 1], piece) for piece in pieces]
        return []

    def markers_in(self, text: str, form: AnswerForm) -> list[int]:
        """The markers in a text, in order of first use. Programs have none: brackets there are indices."""
        return [] if form.draft_is_query else cited_markers(text, most=len(self.passages))

    def checked(self, text: str, run: Run, form: AnswerForm, *, markers: Collection[int] | None = None) -> str:
        """The text without markers that name no passage, or are not among `markers`; a note lists them.

        Applies only where markers are asked for. A text stays unchanged if its short answer would change: then the
        bracket is a list or an index.
        """
        if form.name not in CITING:
            return text
        cleaned, unknown = without_unknown(text, self.all if markers is None else markers)
        is_safe = form.extract(cleaned) == form.extract(text) if form.final_pass else any(map(str.isalnum, cleaned))
        if not unknown or not is_safe:
            return text
        if not self._unknown.issuperset(unknown):
            run.note("unknown markers removed", markers=list(unknown), why="no passage has these numbers")
            self._unknown.update(unknown)
        return cleaned

    def _cite(self, markers: Iterable[int]) -> tuple[Citation, ...]:
        return tuple(Citation.of(marker, self.passages[marker - 1]) for marker in markers)


async def find(run: Run, retriever: Retriever, query: str, *, k: int) -> list[Passage]:
    """Retrieve, and note a failure in the trace: a failed query costs a round, not the question.

    A refused index is not a failed query and passes through.
    """
    try:
        passages = await run.retrieve(retriever, query, k=k)
    except IndexRefused:
        raise
    except RetrievalError as error:
        run.note("retrieval failed", query=query, why=str(error))
        return []
    if not passages:
        run.note("nothing retrieved", query=query)
    return passages
