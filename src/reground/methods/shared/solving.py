"""What RAT and RaR share: settings, and the calls that write a query and revise a text with its passages."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from reground.core.answers import Answer, Thought
from reground.core.language import LEAST_REPLY, Reply, tokens_of
from reground.core.run import Run
from reground.methods.shared.evidence import USUAL_REPLY, Evidence
from reground.methods.shared.prompts import cite, render
from reground.methods.shared.revision import accepted
from reground.methods.shared.settings import Retrieving
from reground.text.queries import clean_query


@dataclass(frozen=True, kw_only=True)
class Revising(Retrieving):
    """Settings of a method that revises a draft with retrieved evidence.

    k: passages per query; the papers show one at a time, which keeps prompts short.
    max_tokens: maximum tokens of a draft, a revision or an answer. query_tokens: maximum tokens of a query.
    """

    k: int = 1
    query_tokens: int = 64


C = TypeVar("C", bound=Revising)


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

    def filled(
        self,
        template: str,
        values: Mapping[str, str],
        markers: Sequence[int],
        run: Run,
        *,
        uses: int,
        reply: int = USUAL_REPLY,
    ) -> str:
        """A prompt with passages. uses, reply: as in `Evidence.fill`."""
        values, tokens = {**values, "question": self.question}, self.config.passage_tokens
        return self.evidence.fill(template, values, markers, run, tokens=tokens, uses=uses, reply=reply)

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
        known: str = "",
        gone: Collection[str] = (),
        **values: str,
    ) -> str | None:
        """What the text before becomes; None where it stays because the reply is of no use.

        uses: as in `Evidence.fill`. known: more text whose markers the revision may use. gone: as in `accepted`.
        values: the template's places beside question, passages and cite.
        """
        form, size = self.config.form, tokens_of(before)
        prompt = self.filled(template, {**values, "cite": cite(form)}, markers, run, uses=uses, reply=size)
        shown = self.evidence.held
        reply = await self.write(prompt, run, name=name, least=size)
        text = accepted(reply, run, form, template=template, before=before, gone=gone)
        if text is None:
            return None
        self.read += [marker for marker in shown if marker not in self.read]
        markers_before = self.evidence.cited(f"{known}\n{before}", form)
        return self.evidence.checked(text, run, form, known=[*shown, *markers_before])

    def answer(self, text: str, steps: Sequence[Thought]) -> Answer:
        """The text as an answer, proposed."""
        return self.run.propose(self.evidence.answer(text, self.run, self.config.form, shown=self.read, steps=steps))
