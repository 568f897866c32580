"""The calls that RaR makes of its model: a text, a query, a reflection and a refinement."""

from __future__ import annotations

from dataclasses import dataclass

from reground.core.answers import AnswerForm
from reground.core.language import LEAST_REPLY, LanguageModel, Reply, Sampling, tokens_of
from reground.core.run import Run
from reground.methods.shared.evidence import clean_query
from reground.methods.shared.prompts import render
from reground.methods.shared.revision import accepted, readable


@dataclass(frozen=True, kw_only=True)
class Calls:
    """The calls of one question. They keep no state, so that guesses may share them.

    model, form, temperature: as in the method's settings, and the most tokens of a text, of a reflection and of a
    query too.
    """

    model: LanguageModel
    form: AnswerForm
    question: str
    temperature: float
    max_tokens: int
    reflection_tokens: int
    query_tokens: int

    async def write(self, prompt: str, run: Run, *, name: str, least: int = LEAST_REPLY) -> Reply:
        """A text: a draft, an answer, or what `refine` then judges. least: the fewest tokens that are of use."""
        sampling = self._sampling(self.max_tokens)
        replies = await run.generate(self.model, prompt, name=name, sampling=sampling, least=least)
        return replies[0]

    async def query(self, template: str, source: str, run: Run, **values: str) -> str:
        """A query for `source`; for code the draft itself is the query (appendix B)."""
        if self.form.draft_is_query:
            return source
        prompt = render(template, question=self.question, **values)
        sampling = self._sampling(self.query_tokens)
        reply = await run.ask(self.model, prompt, name="query", sampling=sampling)
        return clean_query(reply, fallback=source)

    async def reflect(self, prompt: str, run: Run) -> str:
        """What is wrong with a step or an answer, by the passages."""
        sampling = self._sampling(self.reflection_tokens)
        replies = await run.generate(self.model, prompt, name="reflect", sampling=sampling)
        return readable(replies[0], self.form)

    async def refine(self, template: str, prompt: str, run: Run, before: str) -> str | None:
        """What the text before becomes; None where the reply is of no use."""
        reply = await self.write(prompt, run, name="refine", least=tokens_of(before))
        return accepted(reply, run, self.form, template=template, before=before)

    def _sampling(self, max_tokens: int) -> Sampling:
        return Sampling(temperature=self.temperature, max_tokens=max_tokens)
