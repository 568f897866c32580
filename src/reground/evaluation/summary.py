"""Computes a run's results from its scored questions. Questions without a score are counted separately."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from math import fsum
from statistics import stdev

from reground.core.language import Usage
from reground.evaluation.metrics.pass_at_k import pass_at_k
from reground.evaluation.records import MetricSummary, Record, RunConfig, Summary
from reground.evaluation.statistics import bootstrap_interval, question_means

_AT = "pass@"


def summarise(config: RunConfig, records: Sequence[Record], *, expected: int) -> Summary:
    """A run's summary. expected: the number of questions x repeats of the finished run."""
    names = dict.fromkeys([config.primary, *(name for record in records for name in record.scores)])
    metrics = {name: _metric(name, records) for name in names}
    for name in [name for name in names if name.startswith("pass")]:
        metrics |= pass_at(name, records)
    return Summary(
        finished=len(records) == expected,
        questions=len({record.example for record in records}),
        repeats=config.repeats,
        runs=len(records),
        failed=sum(record.failure is not None for record in records),
        failures=dict(Counter(record.failure.type for record in records if record.failure is not None)),
        stopped=dict(Counter(r.stopped for r in records if r.stopped is not None and r.failure is None)),
        cut=sum(record.cut for record in records),
        same_repeats=_same_repeats(records),
        usage=sum((record.usage for record in records), Usage()),
        seconds=fsum(record.seconds for record in records),
        primary=config.primary,
        metrics=metrics,
    )


def values_by_question(metric: str, records: Iterable[Record]) -> dict[str, list[float]]:
    """Each question's scored values, one per repeat."""
    values: dict[str, list[float]] = {}
    for record in records:
        value = record.value(metric)
        scored = values.setdefault(record.example, [])
        if value is not None:
            scored.append(value)
    return values


def pass_at(metric: str, records: Sequence[Record]) -> dict[str, MetricSummary]:
    """pass@k over the repeats, for k = 2, 5, 10, ... and all of them.

    Unbiased (Chen et al. 2021, arXiv 2107.03374, equation 1) where the metric is 0 or 1. A question with fewer
    than k scored repeats is unscored for that k.
    """
    values = values_by_question(metric, records)
    if any(value not in (0.0, 1.0) for scored in values.values() for value in scored):
        return {}
    counted = _with_failures(metric, records)
    most = max((len(scored) for scored in values.values()), default=0)
    found = {}
    for k in sorted({k for k in (2, 5, 10, 20, 50, 100, most) if 1 < k <= most}):
        each = _pass_at_k(values, k)
        interval = bootstrap_interval(list(each.values()))
        found[f"pass@{k}"] = MetricSummary(
            **interval.model_dump(),
            scored=len(each),
            unscored=len(values) - len(each),
            failed=0,
            bound=_mean(_pass_at_k(counted, k)),
        )
    return found


def _with_failures(metric: str, records: Iterable[Record]) -> dict[str, list[float]]:
    """Each question's scored values, and a 0 for each failure. What is unscored does not count."""
    values: dict[str, list[float]] = {}
    for record in records:
        value = record.value(metric) if record.failure is None else 0.0
        if value is not None:
            values.setdefault(record.example, []).append(value)
    return values


def _mean(values: Mapping[str, float]) -> float | None:
    return fsum(values.values()) / len(values) if values else None


def _pass_at_k(values: Mapping[str, Sequence[float]], k: int) -> dict[str, float]:
    return {question: pass_at_k(len(s), sum(map(int, s)), k) for question, s in values.items() if len(s) >= k}


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
        return _pass_at_k(values_by_question(f"{_AT}1", records), k)
    return question_means(values_by_question(metric, records))


def repeat_means(metric: str, records: Iterable[Record]) -> list[float]:
    """Each repeat's mean over its scored questions, in order, without repeats that have none.

    A repeat is a run over all questions with trajectories of its own (ReST meets ReAct, section 4.2).
    """
    values: dict[int, list[float]] = {}
    for record in records:
        value = record.value(metric)
        if value is not None:
            values.setdefault(record.repeat, []).append(value)
    return [fsum(values[repeat]) / len(values[repeat]) for repeat in sorted(values)]


def _metric(name: str, records: Sequence[Record]) -> MetricSummary:
    means = question_scores(name, records)
    failed = sum(record.failure is not None for record in records)
    scored = [value for record in records if (value := record.value(name)) is not None]
    runs = repeat_means(name, records)
    return MetricSummary(
        **bootstrap_interval(list(means.values())).model_dump(),
        scored=len(scored),
        unscored=len(records) - len(scored) - failed,
        failed=failed,
        bound=_mean(question_means(_with_failures(name, records))),
        by_repeat=tuple(runs) if len(runs) > 1 else (),
        std=stdev(runs) if len(runs) > 1 else None,
    )


def _same_repeats(records: Iterable[Record]) -> int:
    answers: dict[str, list[tuple[str, str] | None]] = {}
    for record in records:
        answers.setdefault(record.example, []).append(None if record.failure else (record.answer, record.whole))
    return sum(len(said) > 1 and len(set(said)) == 1 and said[0] is not None for said in answers.values())
