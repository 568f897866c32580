"""Anyone's answer checked against documents: each sentence with its verdict, and the quotes that decide it.

The command, Python, the server and the tools of other programs' models all ask `checked` here.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from reground.app.catalogue import method
from reground.app.mending import Mending, mended
from reground.app.options import Ask, Check, field_names, spread
from reground.app.runs import Shown
from reground.app.session import Opening, Session, Setup, check_revises, finished, sources_of
from reground.app.session import setup_of as setup_to_ask
from reground.core.answers import Answer, Citation, Sentence
from reground.core.concurrency import in_daemon
from reground.core.errors import ConfigurationError
from reground.core.language import storable_text
from reground.core.run import Observer, Run
from reground.retrieval.quotes import locate
from reground.retrieval.settings import Skipped
from reground.support.check import CANDIDATES
from reground.support.verdicts import Checked, Verdict, verdicts

_PLAIN = TypeAdapter(tuple[Checked, ...])


@dataclass(frozen=True, repr=False)
class CheckResult(Shown):
    """An answer, and what documents say of each of its sentences.

    sentences: all of them; their texts, joined, are the answer. question: the one that it answers, if it was told.
    corpus: the folder or file that was searched, if it was given as one on this machine. skipped: its files that could
    not be read, and why. mended: the answer after mending, if that was asked for.
    """

    text: str
    sentences: tuple[Checked, ...]
    question: str | None = None
    corpus: Path | None = None
    skipped: tuple[Skipped, ...] = ()
    mended: Mending | None = None

    @property
    def claims(self) -> tuple[Checked, ...]:
        """The sentences that claim something."""
        return tuple(each for each in self.sentences if each.verdict != Verdict.NO_CLAIM)

    @property
    def fallen(self) -> tuple[Checked, ...]:
        """The claims that are not supported: contradicted, not found, or found elsewhere than they say."""
        return tuple(each for each in self.claims if each.verdict != Verdict.SUPPORTED)

    @property
    def counts(self) -> Mapping[str, int]:
        """How many sentences have each verdict, in the order of `Verdict`."""
        counter = Counter(each.verdict for each in self.sentences)
        return {verdict.value: counter[verdict] for verdict in Verdict}

    @property
    def share(self) -> float | None:
        """The share of the claims that are supported; None where nothing is claimed."""
        return self.counts[Verdict.SUPPORTED] / len(self.claims) if self.claims else None

    def passes(self, least: float = 1.0) -> bool:
        """Whether at least this share of the claims is supported, of a mended answer those that it has then.

        What claims nothing passes only where least is 0.
        """
        share = self.share if self.mended is None else self.mended.share
        return (share or 0.0) >= least

    @property
    def summary(self) -> str:
        """The verdicts in one line."""
        if not self.claims:
            return "the answer claims nothing that documents could support"
        others = Counter(each.verdict.value for each in self.fallen)
        parts = [f"{len(self.claims) - len(self.fallen)} of {len(self.claims)} claims supported"]
        return ", ".join([*parts, *(f"{count} {verdict}" for verdict, count in others.most_common())])

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data."""
        return {
            "text": self.text,
            "question": self.question,
            "share": self.share,
            "counts": self.counts,
            "sentences": _PLAIN.dump_python(self.sentences, mode="json", exclude={"__all__": {"found"}}),
            "skipped": [each.model_dump(mode="json") for each in self.skipped],
            "mended": None if self.mended is None else self.mended.to_dict(),
        }

    def said(self) -> Iterator[tuple[str, Sequence[Citation]]]:
        """The claims after their verdicts, with the quotes that decide these; then the verdicts in one line."""
        yield from ((f"{each.verdict}: {' '.join(each.text.split())}", each.evidence) for each in self.claims)
        yield self.summary, ()

    def __str__(self) -> str:
        return "\n".join(text for text, _ in self.said())

    def __repr__(self) -> str:
        return f"<CheckResult {self.summary}>"


def setup_of(options: Check) -> Setup:
    """What a check opens: documents or the web; and a method and its model where the answer is to be mended.

    Raises ConfigurationError, DataError.
    """
    sources, support = sources_of(options), options.support
    if not sources:
        raise ConfigurationError("say what to check against: --corpus DIR or --web ENGINE")
    if support in ("none", "model"):
        raise ConfigurationError(f"--support {support} is for answers of `ask`: write words, or cross-encoder:NAME")
    if options.mend:
        check_revises(method(options.method))
        shared = set(field_names(Ask)).intersection(field_names(Check)) - {"question"}
        return setup_to_ask(Ask("", **{name: getattr(options, name) for name in shared}))
    return Setup(
        search=options,
        methods=(),
        models={},
        sources=sources,
        support=support,
        threshold=options.support_threshold,
    )


async def checked(
    session: Session,
    text: str,
    *,
    question: str | None = None,
    corpus: str | None = None,
    where: str | None = None,
    k: int = Check.k,
    progress: Callable[[int, int], None] | None = None,
) -> CheckResult:
    """An answer checked against what a session searches, by default the first; its folder is looked at again.

    where: a filter of the documents. k: passages of each search. progress: is told how many claims have been compared,
    and their number. Raises ConfigurationError for an answer that is empty or too long, and what the search and the
    check raise.
    """
    text, name = storable_text(text), corpus or next(iter(session.retrievers))
    if not text.strip():
        raise ConfigurationError("the answer is empty: there is nothing to check")
    await session.follow(name)
    retriever = (await session.narrowed(name, where)).retrievers[name]
    folder = session.setup.sources[name].folder
    judge = session.checks.get(next(iter(session.models), ""))
    sentences = await verdicts(
        text,
        retriever,
        question=question or "",
        k=k,
        language=session.setup.search.language or getattr(retriever, "language", None) or "en",
        judge=judge,
        candidates=CANDIDATES if judge is None else judge.candidates,
        run=Run(budget=session.setup.budget),
        progress=progress,
    )
    if folder is not None:
        answer = Answer(text="", sentences=tuple(Sentence(text="", supports=each.evidence) for each in sentences))
        places = (await in_daemon(partial(locate, answer, folder), name="places")).sentences
        sentences = [replace(each, evidence=at.supports) for each, at in zip(sentences, places, strict=True)]
    skipped = tuple(skipped for report in session.reports.get(name, ()) for skipped in report.skipped)
    return CheckResult(text, tuple(sentences), question, folder, skipped)


async def mend(session: Session, result: CheckResult, options: Check, observer: Observer | None = None) -> CheckResult:
    """The result with the answer as it is after mending. Raises what `mended` raises."""

    async def again(text: str) -> Sequence[Checked]:
        return (await checked(session, text, question=result.question, k=options.k)).sentences

    after = await mended(
        session,
        result.sentences,
        again,
        question=result.question,
        unsupported=options.unsupported,
        budget=session.setup.budget,
        fresh=options.fresh,
        observer=observer or options.observer,
    )
    return replace(result, mended=after)


@spread(Check)
def check(options: Check) -> CheckResult:
    """Check an answer that anybody wrote against documents, sentence by sentence. It works in a notebook too.

    Raises `reground.core.errors.RegroundError` for what cannot be checked or searched.
    """
    return finished(_check(options))


@spread(Check)
async def acheck(options: Check) -> CheckResult:
    """`check` as a coroutine, with the same options."""
    return await _check(options)


async def _check(options: Check) -> CheckResult:
    opening = Opening(on_index=options.on_index, on_report=options.on_report)
    async with Session.open(setup_of(options), opening) as session:
        result = await checked(session, options.text or "", question=options.question, k=options.k)
        return await mend(session, result, options) if options.mend else result
