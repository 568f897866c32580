"""The tables of the papers as experiments: who was measured on what, and what was published (claims.toml).

Another model is not expected to repeat the figures; the claim to test is the order of the methods, and the gain of the
paper's own method over the others.
"""

from __future__ import annotations

import math
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from itertools import product

from pydantic import JsonValue

from reground.core.errors import ConfigurationError, did_you_mean
from reground.evaluation.compare import Cell, parse_budgets
from reground.evaluation.questions import SUBSETS
from reground.evaluation.report import NOTHING, Row, Table, interval, label, number
from reground.evaluation.results import question_scores
from reground.evaluation.statistics import compare

ALL = "paper-claims"
SUFFIX = "-claims"
SAMPLED = 0.7
"""The temperature where a question is run several times; the papers give none, and greedy runs would be alike."""


@dataclass
class Claim:
    """A paper's figures on one task.

    own: the paper's own method. figures: in percent by token limit, metric and method; nan where the paper gives none.
    sources: their tables. repeats: as the metrics need. settings: those of methods, as for `--set`.
    """

    paper: str
    task: str
    own: str
    figures: dict[int | None, dict[str, dict[str, float]]] = field(default_factory=dict)
    sources: list[str] = field(default_factory=list)
    repeats: int = 1
    settings: dict[str, JsonValue] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A name for its folder, such as rat-gsm8k."""
        return f"{self.paper}-{self.task.rpartition('/')[2]}".replace("_", "-")

    @property
    def ids(self) -> str:
        """The questions that the paper measured, if not all."""
        return "paper" if "paper" in SUBSETS.get(self.task, {}) else ""

    @property
    def metrics(self) -> list[str]:
        """The metrics of the figures."""
        return list(dict.fromkeys(metric for columns in self.figures.values() for metric in columns))

    @property
    def cells(self) -> list[Cell]:
        """Each method at the limits that it was published for."""
        pairs = [(name, limit) for limit, columns in self.figures.items() for each in columns.values() for name in each]
        return [Cell(method=name, tokens=limit) for name, limit in dict.fromkeys(pairs)]

    @property
    def baseline(self) -> str:
        """The method that the report of the comparison tests the others against."""
        first = next(iter(self.figures))
        return next(iter(self.rivals(first, self.metrics[0])), self.own)

    def published(self, limit: int | None, metric: str) -> Mapping[str, float]:
        """The figures at a limit; at one that the paper does not have, those at its first."""
        return self.figures.get(limit, next(iter(self.figures.values()))).get(metric, {})

    def rivals(self, limit: int | None, metric: str) -> list[str]:
        """Whom the paper's own method has to beat: the best of the others as published, and its own variants."""
        figures = self.published(limit, metric)
        variants = [name for name in figures if _base(name) == _base(self.own) and name != self.own]
        others = [name for name in figures if _base(name) != _base(self.own)]
        best = max(others, key=lambda name: -1.0 if math.isnan(figures[name]) else figures[name], default=None)
        return variants if best is None else [best, *variants]


def claims() -> list[Claim]:
    """All claims of claims.toml, where the fields of its tables are described: one for each paper and task."""
    text = files("reground.evaluation").joinpath("claims.toml").read_text(encoding="utf-8")
    by_task: dict[tuple[str, str], Claim] = {}
    for table in tomllib.loads(text)["tables"]:
        methods, repeats = table["methods"], table.get("repeats", 1)
        (limit,) = parse_budgets(table.get("limit", "none"))
        for column, figures in table["columns"].items():
            task, _, metric = column.partition(" ")
            claim = by_task.setdefault((table["paper"], task), Claim(table["paper"], task, methods[-1]))
            by_method = claim.figures.setdefault(limit, {}).setdefault(metric, {})
            for name, figure in zip(methods, figures, strict=True):
                by_method.setdefault(name, figure)  # ablations repeat figures, rounded
            claim.sources += [table["source"]] if table["source"] not in claim.sources else []
            claim.repeats = max(claim.repeats, repeats)
            claim.settings |= {"temperature": SAMPLED} if repeats > 1 else {}
            claim.settings |= table.get("settings", {})
    return list(by_task.values())


def claims_of(preset: str) -> list[Claim]:
    """The claims of a preset: all, or a paper's, such as rat-claims. Raises ConfigurationError for an unknown one."""
    everything = claims()
    matches = [claim for claim in everything if preset in (ALL, claim.paper + SUFFIX)]
    if not matches:
        presets = {ALL, *(claim.paper + SUFFIX for claim in everything)}
        raise ConfigurationError(f"no preset is called {preset!r}; {did_you_mean(preset, presets)}")
    return matches


def claim_tables(results: Sequence[tuple[Claim, Sequence[Row]]]) -> list[Table]:
    """What was published beside what was measured, by method; and the gains of the paper's own method."""
    scores = Table(
        "Published and measured", ["claim", "method", "metric", "published", "here", "95 %", "questions"], []
    )
    gains = Table("The paper's gain", ["claim", "method", "over", "metric", "published", "here", "95 %", "p"], [])
    for claim, rows in results:
        for row, metric in product(rows, claim.metrics):
            published = claim.published(row.config.budget.tokens, metric).get(row.config.method, math.nan)
            here = row.summary.metrics.get(metric)
            cells = [NOTHING] * 2 if here is None else [number(here.mean), interval(here.low, here.high)]
            labels = [claim.name, label(row.config), metric, _share(published)]
            scores.rows.append([*labels, *cells, str(row.summary.questions)])
            if row.config.method == claim.own:
                gains.rows.extend(_gains(claim, metric, row, rows))
    return [scores, gains]


def _gains(claim: Claim, metric: str, own: Row, rows: Sequence[Row]) -> list[list[str]]:
    """A line for each rival that was measured under the same limit."""
    limit, lines = own.config.budget.tokens, []
    published = claim.published(limit, metric)
    for rival, row in product(claim.rivals(limit, metric), rows):
        if row.config.method == rival and row.comparable == own.comparable:
            comparison = compare(*(question_scores(metric, each.records) for each in (own, row)))
            difference = comparison.difference
            here = [number(difference.mean, sign=True), interval(difference.low, difference.high), number(comparison.p)]
            gain = _share(published[claim.own] - published[rival], sign=True)
            lines.append([claim.name, label(own.config), rival, metric, gain, *here])
    return lines


def _base(name: str) -> str:
    """A method without its preset."""
    return name.partition("+")[0]


def _share(percent: float, *, sign: bool = False) -> str:
    return number(None if math.isnan(percent) else percent / 100, sign=sign)
