"""A run: what identifies it, its folder, and what a question gives: the answer with its evidence, steps and cost.

Two runs are the same where all that shapes them is equal. Questions, evaluations and tree collections all use this
identity. The folder of a question's run is held while the question is in work, and removed only while nobody holds it.
The lock is on the folder itself and ends with its process, so it holds between processes and survives none.
"""

from __future__ import annotations

import asyncio
import dataclasses
import fcntl
import json
import logging
import math
import os
import secrets
import shutil
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from functools import partial
from html import escape
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from reground.app.catalogue import PARTS
from reground.app.options import field_names
from reground.core.answers import Answer, Citation, Sentence, Thought, abstains
from reground.core.concurrency import in_daemon
from reground.core.errors import EmptyAnswer
from reground.core.evidence import only_markers
from reground.core.files import files_fingerprint, function_fingerprint
from reground.core.journal import fingerprint
from reground.core.language import Usage
from reground.core.trajectory import UNCHECKED, UNGROUNDED, GenerateStep, NoteStep, Trajectory
from reground.models.options import weights_of
from reground.support.lexical import SUPPORTED

if TYPE_CHECKING:
    from pydantic import JsonValue

    from reground.core.evidence import Retriever
    from reground.core.language import LanguageModel
    from reground.core.run import Method
    from reground.models.options import ModelOptions
    from reground.retrieval.settings import Skipped

_OPENAI = "https://api.openai.com/v1"
TRASH = ".gone-"
"""How the name of a folder begins that is being removed."""
_NOTHING = -1
_PAUSE = 0.05
"""Seconds between two looks at a folder that another holds."""

MARK = "served"
"""A file in the folder of a run that goes when it is old. Its time is that of the last question. Each line has the name
of the key that asked a server, empty where none is needed, a tab, and the name of what was asked. Runs without such a
file belong to somebody else, such as an evaluation, and stay."""
WITHIN = "within-"  # how the name of a folder begins that holds the runs within one budget
AROUND = "around-"  # and of one that holds what a model made of a conversation's last message, or of an answer
_DAY = 86400.0
_OFTEN, _SELDOM = 1.0, 600.0
"""The seconds between two looks: a tenth of the time that runs are kept, within these bounds."""
_log = logging.getLogger("reground.serve")

Hold = Callable[[Path], AbstractAsyncContextManager[object]]
"""Such as `held`: holds a run's folder for a block."""


def identity(
    name: str,
    method: Method,
    model: LanguageModel,
    options: ModelOptions,
    *,
    retriever: Retriever | None = None,
    rewriter: LanguageModel | None = None,
    judge: str | None = None,
) -> dict[str, Any]:
    """What identifies a run, apart from its questions: the parts and settings of the method called `name`.

    The keys are fields of `EvalSettings`. A part that the method does not use is left out, and `model_settings` leaves
    out default values. A user's own method file has a fingerprint, because a changed file is a different method.
    """
    places = field_names(type(method))
    rewriting = rewriter.name if rewriter is not None and "rewriter" in places else None
    helpers = {
        "judge": judge,
        "judge_weights": weights_of(judge or ""),
        "rewriter": rewriting,
        "rewriter_weights": weights_of(rewriting or ""),
    }
    file = {"file": files_fingerprint(Path(name))} if name.endswith(".py") else {}
    return {
        "method": name,
        "model": model.name,
        "retriever": retriever.name if retriever is not None and "retriever" in places else None,
        "method_settings": resolved(method) | file,
        "model_settings": model_settings(options, model) | {role: who for role, who in helpers.items() if who},
    }


def resolved(method: Method) -> dict[str, JsonValue]:
    """All settings that a method's answers depend on, as plain data, including defaults.

    Prompts and demonstrations are fingerprints.
    """
    settings: dict[str, JsonValue] = {}
    for name in sorted(field_names(type(method))):
        value = getattr(method, name)
        if name in {"prompts", "demonstrations"}:
            settings[name] = fingerprint(name, repr(value))
        elif name not in PARTS:
            settings[name] = json.loads(json.dumps(value, default=_plain))
    return settings


def _plain(value: object) -> object:
    """JSON data for a value: of a part, such as a model, its name; of any other object its fields."""
    if isinstance(name := getattr(value, "name", None), str):
        return name
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    model_dump = getattr(value, "model_dump", None)
    if model_dump is not None:
        return model_dump(mode="json")
    if isinstance(value, (set, frozenset)):
        return sorted(value, key=repr)
    name = getattr(value, "__qualname__", type(value).__qualname__)
    return f"{name}-{function_fingerprint(value)}" if callable(value) and not isinstance(value, type) else name


def model_settings(options: ModelOptions, model: object = None) -> dict[str, str]:
    """The options that change a model's replies, without those at their defaults.

    The place of the API key is left out, and so are the user, password and query of a base URL.
    """
    settings = {
        "base_url": getattr(model, "served_at", None) or _without_secrets(options.base_url),
        "adapter": options.adapter,
        "adapter_files": None if options.adapter is None else files_fingerprint(options.adapter),
        "weights": weights_of(getattr(model, "name", "")),
        "extra_body": options.extra_body,
        "context": options.context,
        "dtype": None if options.dtype == "auto" else options.dtype,
    }
    if options.base_url is None and settings["base_url"] == _OPENAI:
        del settings["base_url"]
    return {name: str(value) for name, value in settings.items() if value is not None}


def _without_secrets(url: str | None) -> str | None:
    """A URL without its possibly secret parts: user, password and query."""
    if url is None:
        return None
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('?')[0].rpartition('@')[2]}".rstrip("/")


@asynccontextmanager
async def folder_lock(folder: Path) -> AsyncIterator[bool]:
    """Make the folder and hold it by oneself for the block. Gives whether it is new.

    A second caller with the same question waits, and then finds it answered. Where it cannot be made, opened or locked
    nothing is held; the first write into it says why.
    """
    handle, is_new = _locked(folder)
    while handle is None:
        await asyncio.sleep(_PAUSE)
        handle, created = _locked(folder)
        is_new = is_new or created
    try:
        yield is_new
    finally:
        if handle != _NOTHING:
            os.close(handle)


def _locked(folder: Path) -> tuple[int | None, bool]:
    """What holds the folder, None while another has it or where it was removed in between; and whether it is new."""
    is_new = not folder.exists()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        handle = _opened(folder)
    except FileNotFoundError:
        return None, is_new
    except OSError:
        return _NOTHING, is_new
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(handle), folder.stat()):
            return handle, is_new
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:
        return handle, is_new  # a file system without locks, where nothing is ever removed
    os.close(handle)
    return None, is_new


def remove_folder(folder: Path, *, condition: Callable[[], bool]) -> bool:
    """Remove a folder that nobody holds, with its content. condition: asked while nobody else can begin to hold it.

    False, and no change, where somebody holds it, where it is not wanted any more, and where it cannot be removed.
    """
    try:
        handle = _opened(folder)
    except OSError:
        return False
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if not condition():
            return False
        trash = folder.with_name(f"{TRASH}{secrets.token_hex(8)}")
        folder.rename(trash)  # at once, so that nobody waits for the lock until all files are gone
    except OSError:
        return False
    finally:
        os.close(handle)
    shutil.rmtree(trash, ignore_errors=True)
    return True


class Keeping:
    """How long the runs of questions are kept. days: since they were last asked; 0 keeps all of any age.

    most: the bytes that all of them may take; those that were not asked for longest go first.
    """

    def __init__(self, home: Path, days: float, most: float = math.inf) -> None:
        self._home, self._most = home, most
        self._seconds = days * _DAY or math.inf

    @asynccontextmanager
    async def hold(self, folder: Path, *, line: str = "") -> AsyncIterator[None]:
        """Hold the folder of a question that is asked now, and note when that was. line: of the mark."""
        async with folder_lock(folder) as is_new:
            mark = folder / MARK
            with suppress(OSError):
                if is_new or mark.exists():
                    mark.touch()
                    lines = mark.read_text(errors="replace").split("\n")
                    if line not in lines:
                        with mark.open("a") as file:
                            file.write(f"\n{line}\n" if lines[-1] else f"{line}\n")  # a crash may cut a line short
            yield

    def questions_of(self, name: str) -> Iterator[tuple[str, Path, str]]:
        """The runs that the holder of a key asked for, the last first: their names, folders, and what was asked."""
        for mark in sorted(self._marks("ask-*"), key=_time, reverse=True):
            with suppress(OSError):
                entries = (line.partition("\t") for line in mark.read_text(errors="replace").split("\n") if line)
                what = next((what for who, _, what in entries if who == name), None)
                if what is not None:
                    yield mark.parent.relative_to(self._home).as_posix(), mark.parent, what

    def _marks(self, runs: str) -> Iterator[Path]:
        folders = (self._home, *self._home.glob(f"{WITHIN}*"))
        return chain.from_iterable(folder.glob(f"{runs}/{MARK}") for folder in folders)

    async def watch(self) -> None:
        """Remove what is too old, now and from time to time, beside the questions. Ends when it is cancelled."""
        while min(self._seconds, self._most) < math.inf:
            try:
                count = await in_daemon(self.sweep, name="sweep")
                if count:
                    runs = "1 run" if count == 1 else f"{count} runs"
                    _log.info("removed %s that nobody asked for lately (keep, keep_mib)", runs)
            except OSError as error:
                _log.warning("old runs in %s cannot be removed: %s", self._home, error.strerror)
            await asyncio.sleep(min(_SELDOM, max(_OFTEN, self._seconds / 10)))

    def sweep(self) -> int:
        """Remove what is too old or too much, and what an earlier removal left. Returns how many runs are gone."""
        within = [*self._home.glob(f"{WITHIN}*")]
        for trash in (trash for folder in (self._home, *within) for trash in folder.glob(f"{TRASH}*")):
            shutil.rmtree(trash, ignore_errors=True)
        marks = sorted(self._marks("*"), key=_time)
        sizes = [_size(mark.parent) for mark in marks]
        size, count = sum(sizes), 0
        for mark, own in zip(marks, sizes, strict=True):
            since = time.time() - self._seconds if size <= self._most else _time(mark) + _OFTEN
            if remove_folder(mark.parent, condition=partial(lambda mark, since: _time(mark) < since, mark, since)):
                size, count = size - own, count + 1
        for folder in within:
            with suppress(OSError):  # something is in it
                folder.rmdir()
        return count


def _size(folder: Path) -> int:
    """The bytes of the files of a run; none of one that has gone."""
    try:
        return sum(each.stat().st_size for each in folder.iterdir())
    except OSError:
        return 0


def _time(mark: Path) -> float:
    """When a run was asked for last; never, by this clock, where it has gone."""
    try:
        return mark.stat().st_mtime
    except OSError:
        return math.inf


def _opened(folder: Path) -> int:
    return os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)


NEAR = 0.25
"""The score of support below which a sentence is about something else than what was read."""


def place_of(citation: Citation) -> str:
    """Where in its file a citation stands, to be written behind the name of the file."""
    place = f", page {citation.page}" if citation.page else f", {citation.place}" if citation.place else ""
    place = f":{citation.line}" if citation.line else place
    return f"#{citation.fragment}" if citation.fragment else place


class Shown:
    """What a notebook shows as sentences, each with its quotes below it."""

    said: Callable[[], Iterator[tuple[str, Sequence[Citation]]]]

    def _repr_markdown_(self) -> str:
        parts = self._parts(lambda text: text.replace("&", "&amp;").replace("<", "&lt;"))
        return "\n\n".join(("> " + text.replace("\n", "\n> ")) if is_quote else text for text, is_quote in parts)

    def _repr_html_(self) -> str:
        kinds = ("p", "blockquote")
        return "".join(f"<{kinds[is_quote]}>{text}</{kinds[is_quote]}>" for text, is_quote in self._parts(escape))

    def _parts(self, escaped: Callable[[str], str]) -> Iterator[tuple[str, bool]]:
        """The texts, and whether each is a quote."""
        for text, quotes in self.said():
            yield escaped(text), False
            for quote in quotes:
                title = f"{quote.title}, " if quote.title else ""
                yield escaped(f"“{quote.quote}” {title}{quote.url or quote.passage_id}{place_of(quote)}"), True


@dataclass(frozen=True, repr=False)
class Result(Shown):
    """An answer with its evidence, its steps and its cost.

    citations: the passages whose markers appear in the text.
    shown: all passages that the model saw when it wrote the answer, including the cited ones.
    sentences: the text sentence by sentence, each with the sentence of a passage that supports it; empty where nothing
        was checked.
    stopped: the budget limit that ended the work early, if one did.
    skipped: the files of the corpus that could not be read, and why. notes: other remarks on its index.
    corpus: the folder or file that was searched, if it was given as one on this machine.
    json: the answer in the form of JSON that was asked for, if one was.
    """

    text: str
    citations: tuple[Citation, ...]
    shown: tuple[Citation, ...]
    sentences: tuple[Sentence, ...]
    steps: tuple[Thought, ...]
    usage: Usage
    seconds: float
    stopped: str | None
    trajectory: Trajectory
    trajectory_path: Path
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    corpus: Path | None = None
    json: str | None = None

    @classmethod
    def of(cls, trajectory: Trajectory, answer: Answer, path: Path, **about: Any) -> Self:
        """The result of a run that gave an answer. about: its skipped files, notes and corpus."""
        shared = {name: getattr(answer, name) for name in ("text", "citations", "shown", "sentences", "steps")}
        took = {name: getattr(trajectory, name) for name in ("usage", "seconds", "stopped")}
        return cls(trajectory=trajectory, trajectory_path=path, **shared, **took, **about)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        first = " ".join(next(self.said())[0].split())[:80]
        return f"<Result {first!r}, quotes: {len(self.quotes)}, calls: {self.usage.calls}, tokens: {self.usage.tokens}>"

    def said(self) -> Iterator[tuple[str, Sequence[Citation]]]:
        """The sentences with the quotes that support them."""
        if self.ungrounded is not None:
            yield f"Your documents do not say: {self.ungrounded}.", ()
        sentences = [(each.text, each.supports, each.supported is False) for each in self.sentences]
        for text, quotes, is_lacking in sentences or [(self.text, tuple(self.quotes), False)]:
            yield text.strip() + " (not supported by what was read)" * (is_lacking and self.answered), quotes

    @property
    def ungrounded(self) -> str | None:
        """Why the answer rests on no document although there was a corpus to search; None if it may rest on one."""
        reason = self._note(UNGROUNDED)
        if reason is None and (self.sentences or self.unchecked) and abstains(self.text):
            return "the passages do not hold the answer"
        scores = [sentence.score for sentence in self.sentences if sentence.score is not None]
        if reason is None and scores and max(scores) < SUPPORTED:
            how = "quoted" if self.quoted else "read"
            return f"nothing that was {how} {'comes near' if max(scores) < NEAR else 'supports'} it"
        return reason

    @property
    def unchecked(self) -> str | None:
        """Why the sentences were not checked although that was asked for: the budget ended before it; else None."""
        return self._note(UNCHECKED)

    def _note(self, name: str) -> str | None:
        notes = (step for step in self.trajectory.steps if isinstance(step, NoteStep) and step.name == name)
        return next((str(note.data["why"]) for note in notes), None)

    @property
    def answered(self) -> bool:
        """Whether the documents, where there are any, gave the answer."""
        return self.ungrounded is None

    @property
    def quotes(self) -> list[Citation]:
        """The sentences that support the answer, each once; without a check what it was copied from or cites."""
        quotes = (quote for each in self.sentences for quote in each.supports)
        return list(dict.fromkeys(quotes)) if self.sentences else [*(self.quoted or self.citations)]

    @property
    def quoted(self) -> tuple[Citation, ...]:
        """What the model copied from passages before it answered (`Answer.quoted`)."""
        return () if self.trajectory.answer is None else self.trajectory.answer.quoted

    @property
    def misquoted(self) -> tuple[str, ...]:
        """What it gave as a quotation that stands in no passage that was read (`Answer.misquoted`)."""
        return () if self.trajectory.answer is None else self.trajectory.answer.misquoted

    @property
    def faithfulness(self) -> float | None:
        """The share of the answer's claiming sentences that a passage supports; None if nothing was checked."""
        return None if self.trajectory.answer is None else self.trajectory.answer.faithfulness

    def to_dict(self) -> dict[str, Any]:
        """The result as plain data, with the path of the trajectory instead of the trajectory."""
        return {
            "question": self.trajectory.question,
            "answer": self.text,
            "answered": self.answered,
            "faithfulness": self.faithfulness,
            "unchecked": self.unchecked,
            "sentences": [sentence.model_dump(mode="json") for sentence in self.sentences],
            "method": self.trajectory.method,
            "citations": [citation.model_dump(mode="json") for citation in self.citations],
            "quoted": [quote.model_dump(mode="json") for quote in self.quoted],
            "misquoted": [*self.misquoted],
            "shown": [passage.model_dump(mode="json") for passage in self.shown],
            "ungrounded": self.ungrounded,
            "steps": [step.model_dump(mode="json") for step in self.steps],
            "usage": {**self.usage.model_dump(mode="json"), "seconds": round(self.seconds, 3)},
            "stopped": self.stopped,
            "skipped": [skipped.model_dump(mode="json") for skipped in self.skipped],
            "notes": list(self.notes),
            "trajectory": str(self.trajectory_path),
        }


_WHYS = {
    "tool_calls": "the server gave a call of a tool instead of text",
    "content_filter": "the server's content filter held the text back",
}


def empty_answer(trajectory: Trajectory) -> EmptyAnswer | None:
    """The error for an answer without text, with the reason from the last call; None if there is text.

    The numbers of passages alone, such as "[1]", are no text: small models write them.
    """
    answer = trajectory.answer
    if trajectory.failure is not None or answer is None:
        return None
    if only_markers(answer.text, most=max((each.marker for each in answer.shown), default=0)):
        return EmptyAnswer(
            f"the answer is only the number of a passage, {answer.text.strip()}; a larger model says more"
        )
    if answer.text.strip():
        return None
    calls = [step for step in trajectory.steps if isinstance(step, GenerateStep) and step.replies]
    return EmptyAnswer(
        f"the answer is empty: {_why(calls[-1]) if calls else 'no model was called'}; --fresh asks again"
    )


def _why(call: GenerateStep) -> str:
    last = call.replies[0]
    if last.text.strip():
        return f"nothing of {call.model}'s last reply could be used"
    if last.finish_reason == "length":
        doing = "while it was still thinking" if last.reasoning else "before it wrote a word"
        limit = call.sampling.max_tokens + last.room
        larger = "a larger max_tokens" if last.room else f"--set max_tokens={4 * limit}"  # the server may take no more
        return f"{call.model}'s limit of {limit} tokens ended {doing} ({larger} allows more)"
    return f"{call.model}: {_WHYS.get(last.finish_reason, 'its reply has no text')}"
