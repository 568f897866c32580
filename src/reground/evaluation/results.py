"""The results store: one folder per run, with plain files that can be read without reground.

    config.json         the configuration: task, data, method, model, budget, seed, ids, limit, repeats
    versions.json       the versions of Python and the libraries
    journal.sqlite      every effect, so that no call is paid twice
    trajectories.jsonl  one line per question and repeat: the whole trajectory
    scores.jsonl        one line per question and repeat: every metric's value and reason, usage, seconds, failure
    summary.json        means, intervals, cost

JSON files are replaced whole; the two JSONL files only grow by whole lines, each with a checksum (`core.files`). When a
run is opened again, a damaged line, or a last line that was cut short, is moved to another file (.damaged).
"""

from __future__ import annotations

import json
import math
import platform
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from importlib import metadata
from math import fsum
from pathlib import Path
from statistics import stdev
from typing import Annotated, Literal, TypeVar

from pydantic import Field, JsonValue, ValidationError

from reground.core.budget import Budget
from reground.core.errors import ConfigurationError, DataError
from reground.core.files import append_line, locked, read_lines, replace_lines, set_aside, with_sum, without_sum
from reground.core.language import LATER, Json, Text, Usage, Value, first_fault, storable_text
from reground.core.trajectory import (
    ExecuteStep,
    Failure,
    GenerateStep,
    RetrieveStep,
    Step,
    Trajectory,
    append_trajectory,
    parse_trajectory,
    read_trajectories,
    write_trajectories,
)
from reground.evaluation.statistics import Cost, bootstrap_interval, question_means
from reground.evaluation.task import Score


class Stage(Value):
    """One stage's cost. prompt, completion: tokens. seconds: wall-clock time; the stages add up to the question's."""

    calls: int = 0
    prompt: int = 0
    completion: int = 0
    seconds: float = 0.0

    def __add__(self, other: Stage) -> Stage:
        return Stage(**{name: getattr(self, name) + getattr(other, name) for name in Stage.model_fields})


def stages_of(trajectory: Trajectory) -> dict[str, Stage]:
    """The cost of each stage of one question, by the names of its steps ("draft", "retrieve", ...)."""
    costs = []
    for step, seconds in timed(trajectory.steps):
        replies = step.replies if isinstance(step, GenerateStep) else ()
        usage = sum((reply.usage for reply in replies), Usage())
        cost = Stage(calls=1, prompt=usage.prompt, completion=usage.completion, seconds=seconds)
        costs.append({step.name: cost})
    return add_stages(costs)


def timed(steps: Iterable[Step]) -> Iterator[tuple[GenerateStep | RetrieveStep | ExecuteStep, float]]:
    """The steps that cost time, each with the seconds between the end of the one before and its own.

    For sequential calls this is their duration; concurrent calls share their total time.
    """
    began = 0.0
    for step in steps:
        if isinstance(step, GenerateStep | RetrieveStep | ExecuteStep):
            yield step, max(0.0, step.elapsed - began)
            began = max(began, step.elapsed)


def add_stages(several: Iterable[Mapping[str, Stage]]) -> dict[str, Stage]:
    """The sum over questions, in the order in which the stages first appear."""
    total: dict[str, Stage] = {}
    for stages in several:
        for name, stage in stages.items():
            total[name] = total.get(name, Stage()) + stage
    return total


class RunConfig(Value):
    """The identity of a run: two runs with equal configurations do the same work.

    data: a fingerprint of all examples of the split, to notice changed data.
    settings: the method's. model_settings: options that change a model's replies; never a key.
    ids: the questions to choose from, None for all. limit: the number chosen, None for all. repeats: runs of each
    question.
    """

    format: Literal[1] = 1
    task: str
    data: str
    primary: str
    form: str
    method: str
    settings: dict[str, JsonValue] = Field(default_factory=dict)
    model: str
    model_settings: dict[str, JsonValue] = Field(default_factory=dict)
    retriever: str | None = None
    budget: Budget = Budget()
    seed: int = 0
    ids: tuple[str, ...] | None = None
    limit: int | None = None
    repeats: int = 1


class Record(Value):
    """The scores of one question and repeat.

    failure: why there is no answer; then there are no scores. scoring: why an answer could not be scored; a resumed run
    tries again. answer: the beginning of the short answer that was compared. whole: a fingerprint of all of it, if
    it is longer. cut: whether the length limit cut the last reply.
    stages: cost by the name of the step; older runs have none until they are scored again.
    """

    id: str
    example: str
    repeat: int
    scores: dict[str, Score] = Field(default_factory=dict)
    answer: Text = ""
    whole: Annotated[str, LATER] = ""
    usage: Usage = Usage()
    seconds: float = 0.0
    failure: Failure | None = None
    stopped: str | None = None
    cut: bool = False
    scoring: Text | None = None
    stages: dict[str, Stage] = Field(default_factory=dict)
    metadata: dict[Text, Json] = Field(default_factory=dict)

    def value(self, metric: str) -> float | None:
        """The metric's value; None if it failed or is unscored."""
        score = self.scores.get(metric)
        return None if score is None else score.value


class MetricSummary(Value):
    """One metric over a run.

    mean, low, high: over the scored questions, with the 95 % bootstrap interval.
    scored, unscored, failed: questions x repeats with a value, with an answer but no value, and without an answer. Only
        the first count towards the mean.
    bound: the mean if every failed one counted 0.
    by_repeat: each repeat's mean over its scored questions, as if it were a separate run; empty for one repeat.
    std: the sample standard deviation of these, as ReST meets ReAct reports it after ± (ten runs); None for one.
    """

    mean: float | None
    low: float | None
    high: float | None
    scored: int
    unscored: int
    failed: int
    bound: float | None
    by_repeat: tuple[float, ...] = ()
    std: float | None = None


class Summary(Value):
    """The results of a run. usage, seconds: sums over questions x repeats.

    finished: whether every question and repeat was run. same_repeats: questions whose repeats all gave the same short
    answer. stopped: the number of answers that each budget limit ended early. cut: the number of answers whose last
    reply was cut by its length limit.
    """

    finished: bool
    questions: int
    repeats: int
    runs: int
    failed: int
    failures: dict[str, int] = Field(default_factory=dict)
    stopped: dict[str, int] = Field(default_factory=dict)
    cut: int = 0
    same_repeats: int = 0
    usage: Usage = Usage()
    seconds: float = 0.0
    primary: str
    metrics: dict[str, MetricSummary] = Field(default_factory=dict)

    @property
    def cost(self) -> Cost:
        """A question's mean cost."""
        runs = max(1, self.runs)
        usd = None if self.usage.usd is None else self.usage.usd / runs
        return Cost(tokens=self.usage.tokens / runs, seconds=self.seconds / runs, usd=usd)


_LIBRARIES = ("pydantic", "aiohttp", "tantivy", "xllamacpp", "numpy", "math-verify", "torch", "transformers", "lancedb")

V = TypeVar("V", bound=Value)


@dataclass
class RunFolder:
    """An open run folder. `notices` are messages for the user about repairs."""

    path: Path
    config: RunConfig
    notices: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.journal = self.path / "journal.sqlite"
        self.trajectories = self.path / "trajectories.jsonl"
        self.scores = self.path / "scores.jsonl"

    def append(self, trajectory: Trajectory) -> None:
        """Add a finished question."""
        append_trajectory(self.trajectories, trajectory)

    def append_record(self, record: Record) -> None:
        """Add a question's scores."""
        append_line(self.scores, record.model_dump_json())

    def records(self) -> dict[str, Record]:
        """Every scored question by its id, without a line that is still being written."""
        return {record.id: record for record in read_records(self.scores)} if self.scores.exists() else {}

    def solved(self) -> Iterator[Trajectory]:
        """Every finished question."""
        return read_trajectories(self.trajectories) if self.trajectories.exists() else iter(())

    def drop(self, ids: frozenset[str], *, trajectories: bool) -> None:
        """Remove questions from the scores and the trajectories, so that they are run again."""
        if trajectories and self.trajectories.exists():
            write_trajectories(self.trajectories, (t for t in self.solved() if t.id not in ids))
        if self.scores.exists():
            records = [record for key, record in self.records().items() if key not in ids]
            replace_lines(self.scores, (with_sum(record.model_dump_json()) for record in records))

    def summary(self) -> Summary | None:
        """The content of summary.json, or None."""
        return read_stored(self.path / "summary.json", Summary)


def write_stored(path: Path, value: Value) -> None:
    """Replace a JSON file whole. Raises StorageError."""
    write_text(path, value.model_dump_json(indent=2) + "\n")


def read_stored(path: Path, kind: type[V]) -> V | None:
    """A JSON file's value; None if there is no file. Raises DataError if it holds something else."""
    try:
        return kind.model_validate_json(path.read_bytes()) if path.is_file() else None
    except OSError as error:
        raise DataError(f"cannot be read: {error.strerror}", path=path) from None
    except ValidationError as error:
        raise DataError(first_fault(error), path=path) from None


def write_text(path: Path, text: str) -> None:
    """Replace a file whole: a reader sees the old text or the new one. Raises StorageError."""
    replace_lines(path, [storable_text(text).encode()])


@contextmanager
def open_run(path: Path, config: RunConfig) -> Iterator[RunFolder]:
    """Start or resume a run folder. Only one process can have it open.

    Raises ConfigurationError if the folder contains another run or is in use, DataError if a file in it is broken.
    """
    check_run(path, config)
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot make the run folder {path}: {error.strerror}") from error
    with locked(path / ".lock", "running in", path):
        check_run(path, config)  # again, for another process may have begun it
        for part in path.rglob("*.*-*.part"):  # of a file that a killed process was writing
            part.unlink(missing_ok=True)
        if read_stored(path / "config.json", RunConfig) not in (None, config) and not has_begun(path):
            for name in ("trajectories.jsonl", "scores.jsonl", "summary.json"):
                (path / name).unlink(missing_ok=True)
        write_stored(path / "config.json", config)
        write_text(path / "versions.json", json.dumps(versions(), indent=2) + "\n")
        folder = RunFolder(path, config)
        for file, check in ((folder.trajectories, parse_trajectory), (folder.scores, Record.model_validate_json)):
            notices = set_aside(file, check) if file.exists() else []
            folder.notices += [f"{notice}; its question is run again" for notice in notices]
        yield folder


def check_run(path: Path, config: RunConfig) -> None:
    """Raise the errors of `open_run` about the folder's configuration, without changing anything.

    Of a run's configuration only `limit` and `repeats` may grow, once it has begun.
    """
    old = read_stored(path / "config.json", RunConfig)
    if old is None:
        files = [path] if path.is_file() else sorted(path.iterdir()) if path.is_dir() else []
        foreign = [file for file in files if file.name != ".lock" and not file.name.endswith(".part")]
        if foreign:
            raise ConfigurationError(f"{path} is no run folder: it holds {foreign[0].name} and no config.json")
        return
    before, after = _flat(old), _flat(config)
    growth = {
        "limit": old.limit is not None and (config.limit is None or config.limit >= old.limit),
        "repeats": config.repeats >= old.repeats,
    }
    differing = [
        f"{name} was {_brief(before.get(name))}, now {_brief(after.get(name))}"
        for name in before | after
        if before.get(name) != after.get(name) and not growth.get(name)
    ]
    if differing and has_begun(path):
        raise ConfigurationError(
            f"{path} contains another run: {'; '.join(differing)}. Give the same options to resume it, or another --out"
        )


def has_begun(path: Path) -> bool:
    """Whether a run folder holds an answer, a call that was made or a tree: else other settings lose nothing."""
    records = read_records(path / "scores.jsonl") if (path / "scores.jsonl").exists() else ()
    return any(each.failure is None or each.usage.calls for each in records) or any((path / "trees").glob("*"))


def read_run(path: Path) -> RunFolder:
    """Open a run folder for reading, finished or not. Raises DataError for another folder."""
    config = read_stored(path / "config.json", RunConfig)
    if config is None:
        raise DataError("not a run folder: it has no config.json", path=path)
    return RunFolder(path, config)


def find_runs(paths: list[Path]) -> list[RunFolder]:
    """The run folders among these paths and directly below them, in order. Raises DataError for a path without one."""
    runs: list[RunFolder] = []
    for path in paths:
        folders = [path] if (path / "config.json").is_file() else sorted(p.parent for p in path.glob("*/config.json"))
        if not folders:
            raise DataError("no run folder here: none has a config.json", path=path)
        runs += [read_run(folder) for folder in folders]
    return runs


def read_records(path: Path) -> Iterator[Record]:
    """Read scores.jsonl, without a last line that is still being written. Raises DataError naming the line."""
    for number, line in read_lines(path, "scores"):
        try:
            yield Record.model_validate_json(without_sum(line))
        except ValueError as error:
            if not line.endswith(b"\n"):
                return
            why = f"not a line of scores: {first_fault(error)}" if isinstance(error, ValidationError) else str(error)
            raise DataError(why, path=path, line=number) from None


def versions() -> dict[str, str]:
    """The versions of Python, the platform and the libraries."""
    numbers = {"python": platform.python_version(), "platform": platform.platform()}
    for name in ("reground", *_LIBRARIES):
        with suppress(metadata.PackageNotFoundError):
            numbers[name] = metadata.version(name)
    return numbers


def _flat(config: RunConfig) -> dict[str, JsonValue]:
    """The fields, and nested settings by their dotted names."""
    flat: dict[str, JsonValue] = {}
    for name, value in config.model_dump(mode="json").items():
        flat |= {f"{name}.{key}": inner for key, inner in value.items()} if isinstance(value, dict) else {name: value}
    return flat


def _brief(value: JsonValue) -> str:
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 120 else text[:117] + "..."


def pass_at_k(n: int, c: int, k: int) -> float:
    """The probability that at least one of `k` programs is right, drawn from `n` of which `c` are right.

    Computed with exact integers. 1 <= k <= n and 0 <= c <= n.
    """
    return 1.0 - math.comb(n - c, k) / math.comb(n, k)


_AT = "pass@"


def summarise(config: RunConfig, records: Sequence[Record], *, expected: int) -> Summary:
    """A run's summary. expected: the number of questions x repeats of the finished run."""
    names = dict.fromkeys([config.primary, *(name for record in records for name in record.scores)])
    metrics = {name: _metric(name, records) for name in names}
    for name in [name for name in names if name.startswith("pass")]:
        metrics |= pass_at(name, records)
    answers: dict[str, list[tuple[str, str] | None]] = {}
    for record in records:
        answers.setdefault(record.example, []).append(None if record.failure else (record.answer, record.whole))
    return Summary(
        finished=len(records) == expected,
        questions=len(answers),
        repeats=config.repeats,
        runs=len(records),
        failed=sum(record.failure is not None for record in records),
        failures=dict(Counter(record.failure.type for record in records if record.failure is not None)),
        stopped=dict(Counter(r.stopped for r in records if r.stopped is not None and r.failure is None)),
        cut=sum(record.cut for record in records),
        same_repeats=sum(len(each) > 1 and len(set(each)) == 1 and each[0] is not None for each in answers.values()),
        usage=sum((record.usage for record in records), Usage()),
        seconds=fsum(record.seconds for record in records),
        primary=config.primary,
        metrics=metrics,
    )


def _values(metric: str, records: Iterable[Record], *, failed: float | None = None) -> dict[str, list[float]]:
    """Each question's scored values, one per repeat. failed: what a failure counts, if anything."""
    values: dict[str, list[float]] = {}
    for record in records:
        value = record.value(metric) if record.failure is None else failed
        values.setdefault(record.example, []).extend([] if value is None else [value])
    return values


def pass_at(metric: str, records: Sequence[Record]) -> dict[str, MetricSummary]:
    """pass@k over the repeats, for k = 2, 5, 10, ... and all of them.

    Unbiased (Chen et al. 2021, arXiv 2107.03374, equation 1) where the metric is 0 or 1. A question with fewer
    than k scored repeats is unscored for that k.
    """
    values = _values(metric, records)
    if any(value not in (0.0, 1.0) for scored in values.values() for value in scored):
        return {}
    bounds = _values(metric, records, failed=0.0)
    most = max((len(scored) for scored in values.values()), default=0)
    summaries = {}
    for k in sorted({k for k in (2, 5, 10, 20, 50, 100, most) if 1 < k <= most}):
        each = _pass_at_k(values, k)
        summaries[f"{_AT}{k}"] = MetricSummary(
            **bootstrap_interval(list(each.values())).model_dump(),
            scored=len(each),
            unscored=len(values) - len(each),
            failed=0,
            bound=_mean(_pass_at_k(bounds, k).values()),
        )
    return summaries


def _pass_at_k(values: Mapping[str, Sequence[float]], k: int) -> dict[str, float]:
    return {question: pass_at_k(len(s), sum(map(int, s)), k) for question, s in values.items() if len(s) >= k}


def _mean(values: Collection[float]) -> float | None:
    return fsum(values) / len(values) if values else None


def group_means(metric: str, by: str, records: Iterable[Record]) -> dict[str, MetricSummary]:
    """The metric within each value of a metadata field, e.g. by difficulty."""
    groups: dict[str, list[Record]] = {}
    for record in records:
        groups.setdefault(str(record.metadata.get(by, "none")), []).append(record)
    return {name: _metric(metric, groups[name]) for name in sorted(groups)}


def question_scores(metric: str, records: Iterable[Record]) -> Mapping[str, float]:
    """Each question's mean over its scored repeats; for pass@k from 2 on, the estimate from its repeats' pass@1."""
    k = int(metric.removeprefix(_AT)) if metric.startswith(_AT) else 1
    if k > 1:
        return _pass_at_k(_values(f"{_AT}1", records), k)
    return question_means(_values(metric, records))


def _metric(name: str, records: Sequence[Record]) -> MetricSummary:
    failed = sum(record.failure is not None for record in records)
    # A repeat is a run over all questions with trajectories of its own (ReST meets ReAct, section 4.2).
    repeats: dict[int, list[float]] = {}
    for record in records:
        value = record.value(name)
        if value is not None:
            repeats.setdefault(record.repeat, []).append(value)
    scored = sum(map(len, repeats.values()))
    means = [fsum(repeats[repeat]) / len(repeats[repeat]) for repeat in sorted(repeats)]
    return MetricSummary(
        **bootstrap_interval(list(question_scores(name, records).values())).model_dump(),
        scored=scored,
        unscored=len(records) - scored - failed,
        failed=failed,
        bound=_mean(question_means(_values(name, records, failed=0.0)).values()),
        by_repeat=tuple(means) if len(means) > 1 else (),
        std=stdev(means) if len(means) > 1 else None,
    )
