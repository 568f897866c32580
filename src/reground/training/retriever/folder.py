"""The folder of a retriever's training: where each stage writes and reads.

config.json, questions.json: what the data are made of, and which questions. data/: the rows and their questions, those
held out in data/held-out/. fit/retriever/: checkpoints and metrics. retriever/: the trained embedder. tries.jsonl: all
finished fits and how well they rank held-out passages. links.json: the weights of links reranking. eval.json: what was
measured.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from pydantic import JsonValue

from reground.core.errors import DataError
from reground.core.language import Value
from reground.evaluation.data import numbered_records, value_of
from reground.evaluation.results import write_text
from reground.training.retriever.data import Contrast, Mined, Question
from reground.training.retriever.validate import Validation
from reground.training.rows import read_rows, write_rows


class Source(Value):
    """Where questions are from: a name, the corpus that is searched for them, and its language."""

    name: str
    corpus: Path
    language: str | None = None


class Config(Value):
    """config.json: the sources and the settings of the rows."""

    sources: tuple[Source, ...]
    mining: dict[str, JsonValue]


class Try(Value):
    """A finished fit: its settings, and how the base and the result rank held-out passages."""

    settings: dict[str, JsonValue]
    before: Validation
    after: Validation


@dataclass(frozen=True)
class TrainingFolder:
    """Its places."""

    path: Path

    @property
    def rows(self) -> Path:
        """Rows to train on."""
        return self.path / "data" / "retriever.jsonl"

    @property
    def held_out(self) -> Path:
        """Rows of questions that are kept from training."""
        return self.path / "data" / "held-out" / "retriever.jsonl"

    @property
    def links(self) -> Path:
        """The weights of links reranking."""
        return self.path / "links.json"

    def _questions(self, *, held_out: bool) -> Path:
        return (self.held_out if held_out else self.rows).with_name("questions.jsonl")

    def questions(self, source: Source, *, held_out: bool) -> list[Question]:
        """A source's questions with the ids of their documents, those to train on or those held out.

        Raises DataError.
        """
        file = self._questions(held_out=held_out)
        read = (value_of(record, Question, file, line) for line, record in numbered_records(file))
        return [question for question in read if question.task == source.name and question.gold]

    @property
    def checkpoints(self) -> Path:
        """What an interrupted fit goes on from."""
        return self.path / "fit" / "retriever"

    @property
    def result(self) -> Path:
        """The trained embedder, a folder of sentence-transformers."""
        return self.path / "retriever"

    def write_data(
        self, config: Config, questions: Mapping[str, Sequence[Question]], mined: Mapping[str, Mined]
    ) -> None:
        """Write the data of each source; config.json comes last, so a folder that has it has everything."""
        self.held_out.parent.mkdir(parents=True, exist_ok=True)
        write_rows(self.rows, [row for each in mined.values() for row in each.rows])
        write_rows(self.held_out, [row for each in mined.values() for row in each.held_out])
        for held_out in (False, True):
            lines = []
            for name, each in mined.items():
                ids = {row.question for row in (each.held_out if held_out else each.rows)}
                lines += [question.model_dump_json() + "\n" for question in questions[name] if question.id in ids]
            write_text(self._questions(held_out=held_out), "".join(lines))
        _write_json(self.path / "questions.json", _used(mined))
        _write_json(self.path / "data" / "report.json", {name: _counts(each) for name, each in mined.items()})
        _write_json(self.path / "config.json", config.model_dump(mode="json"))

    def config(self) -> Config:
        """Raises DataError where the data stage has not ended."""
        file = self.path / "config.json"
        try:
            return Config.model_validate_json(file.read_bytes())
        except FileNotFoundError:
            raise DataError("there are no data here: run reground train retriever data first", path=self.path) from None
        except (OSError, ValueError) as error:
            raise DataError(f"cannot be read: {str(error).splitlines()[0]}", path=file) from None

    def is_fitted(self) -> bool:
        """Whether the last fit has ended."""
        return self.result.is_dir() and self._ended.exists()

    def close_fit(self) -> None:
        """Mark the fit as ended, and remove its checkpoints."""
        self._ended.touch()
        for checkpoint in self.checkpoints.glob("checkpoint-*"):
            shutil.rmtree(checkpoint, ignore_errors=True)

    @property
    def _ended(self) -> Path:
        return self.checkpoints / "ended"

    def training_rows(self) -> list[Contrast]:
        """The rows to train on. Raises DataError."""
        self.config()
        return read_rows(self.rows, Contrast)

    def held_out_rows(self) -> list[Contrast]:
        """The rows that are kept from training; there may be none. Raises DataError."""
        return read_rows(self.held_out, Contrast) if self.held_out.is_file() and self.held_out.stat().st_size else []

    def keep_try(self, settings: Mapping[str, JsonValue], before: Validation, after: Validation) -> list[Try]:
        """Add a finished fit to those that were tried, and return all of them."""
        tries = [*self.tries(), Try(settings=dict(settings), before=before, after=after)]
        write_text(self._tries, "".join(each.model_dump_json() + "\n" for each in tries))
        return tries

    def tries(self) -> list[Try]:
        """The fits so far, with other settings or on other rows."""
        if not self._tries.is_file():
            return []
        return [value_of(record, Try, self._tries, line) for line, record in numbered_records(self._tries)]

    @property
    def _tries(self) -> Path:
        return self.path / "tries.jsonl"

    def fingerprint(self) -> str:
        """Changes with the rows to train on."""
        return hashlib.sha256(self.rows.read_bytes()).hexdigest()[:16]


def _counts(mined: Mined) -> dict[str, JsonValue]:
    """How many rows there are, and what was left out and why."""
    left_out: dict[str, JsonValue] = {why: number for why, number in sorted(mined.left_out.items()) if number}
    return {"rows": len(mined.rows), "held_out": len(mined.held_out), "left_out": left_out}


def _used(mined: Mapping[str, Mined]) -> JsonValue:
    return {
        name: {
            "ids": list(dict.fromkeys(row.question for row in each.rows)),
            "held_out": list(dict.fromkeys(row.question for row in each.held_out)),
        }
        for name, each in mined.items()
    }


def _write_json(path: Path, value: JsonValue) -> None:
    write_text(path, json.dumps(value, ensure_ascii=False, indent=2) + "\n")
