"""The headline tables of the papers as experiments: who was measured on what, and what was published.

Figures are the papers' own, in percent, with their models and corpora. Another model is not expected to repeat them;
the claim to test is the order of the methods, and the gain of the paper's own method over the others.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from reground.core.errors import ConfigurationError, did_you_mean
from reground.evaluation.statistics import compare
from reground.evaluation.summary import question_scores
from reground.evaluation.tables import NOTHING, Row, Table, interval, label, number

ALL = "paper-claims"
SUFFIX = "-claims"


@dataclass(frozen=True, kw_only=True)
class Claim:
    """One column of a table. The last of its methods is the paper's own.

    paper: the group that it belongs to. source: the table, its model and its column. task: `{data}` in it is the data
    root. figures: what was published, by method; None where only we measure. ids: the part of the task's questions.
    tokens: the paper's limit. repeats: as the metric needs. settings: those of methods, as for `--set`.
    """

    paper: str
    source: str
    task: str
    metric: str
    figures: Mapping[str, float | None]
    ids: str = ""
    tokens: int | None = None
    repeats: int = 1
    settings: Mapping[str, object] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """A name for its folder, such as rat-gsm8k."""
        return f"{self.paper}-{self.task.rpartition('/')[2]}".replace("_", "-")

    @property
    def own(self) -> str:
        """The paper's own method."""
        return list(self.figures)[-1]

    @property
    def rival(self) -> str:
        """The best of the others as published, which the paper's own has to beat."""
        others = list(self.figures)[:-1]
        return max(others, key=lambda name: self.figures[name] or 0.0)


def _rat(task: str, column: str, metric: str, figures: Sequence[float], *, ids: str = "") -> Claim:
    methods = ("direct", "cot", "rag+one", "rag", "rat")
    named = dict(zip(methods, figures, strict=True))
    return Claim(paper="rat", source=f"RAT, {column}", task=task, metric=metric, figures=named, ids=ids)


def _rar(task: str, column: str, metric: str, *, ids: str = "", repeats: int = 1, **figures: float) -> Claim:
    settings: dict[str, object] = {"temperature": 0.7} if repeats > 1 else {}  # equal samples would all pass or fail
    return Claim(
        paper="rar", source=f"RaR, table 1, GPT-3.5, {column}", task=task, metric=metric, figures=figures, ids=ids,
        tokens=4000, repeats=repeats, settings=settings,
    )  # fmt: skip


def _rewriter(task: str, column: str, metric: str, figures: Sequence[float]) -> Claim:
    methods = ("rewrite_retrieve_read+reader", "rewrite_retrieve_read+retrieve", "rewrite_retrieve_read")
    named = dict(zip(methods, figures, strict=True))
    return Claim(
        paper="rewriter", source=f"Rewrite-Retrieve-Read, table 2, LLM rewriter, {column}",
        task=task, metric=metric, figures=named,
    )  # fmt: skip


def _ranking(task: str, column: str, figures: Sequence[float]) -> Claim:
    named = dict(zip(("rag", "cot_rag", "chain_of_knowledge", "cr_planner+ranking"), figures, strict=True))
    return Claim(
        paper="cr_planner", source=f"CR-Planner, table 3, {column}", task=task, metric="nDCG@10", figures=named,
        settings={"rag.k": 10, "cot_rag.k": 10},
    )  # fmt: skip


CLAIMS = (
    _rat("humaneval", "table 1, GPT-3.5, HumanEval", "pass@1", (50.49, 47.31, 50.61, 45.49, 59.27)),
    _rat("humaneval_plus", "table 1, GPT-3.5, HumanEval+", "pass@1", (48.09, 41.72, 48.22, 42.58, 56.31)),
    _rat("mbpp", "table 1, GPT-3.5, MBPP", "pass@1", (60.84, 55.19, 55.23, 54.39, 59.31), ids="paper"),
    _rat("mbpp_plus", "table 1, GPT-3.5, MBPP+", "pass@1", (54.92, 47.69, 53.62, 55.98, 59.10), ids="paper"),
    _rat("gsm8k", "table 2, GPT-3.5, GSM8K", "accuracy", (65.85, 63.82, 61.81, 61.81, 71.36), ids="paper"),
    _rat("gsm_hard", "table 2, GPT-3.5, GSMHard", "accuracy", (51.26, 44.72, 51.26, 56.78, 67.34), ids="paper"),
    _rat("minecraft", "table 2, GPT-4, executability", "executability", (19.33, 49.33, 31.00, 33.00, 76.67)),
    _rar(
        "humaneval", "HumanEval", "pass@5", repeats=5,
        direct=72.5, rag=76.2, ircot=77.4, flare=75.8, few_shot_cot=75.8, self_refine=75.8, self_consistency=75.8,
        cot_rag=76.8, rar=80.4,
    ),
    _rar(
        "humaneval_plus", "HumanEval+", "pass@5", repeats=5,
        direct=70.5, rag=70.5, few_shot_cot=74.8, self_refine=74.2, self_consistency=72.9, cot_rag=69.3, rar=76.0,
    ),
    _rar(
        "mbpp", "MBPP", "pass@5", ids="paper", repeats=5,
        direct=72.9, rag=70.5, few_shot_cot=65.4, self_refine=69.4, self_consistency=73.8, rar=74.7,
    ),
    _rar(
        "mbpp_plus", "MBPP+", "pass@5", ids="paper", repeats=5,
        direct=64.0, rag=68.0, few_shot_cot=62.9, self_refine=65.6, self_consistency=69.7, rar=72.6,
    ),
    _rar(
        "gsm8k", "GSM8K", "accuracy", ids="paper",
        direct=65.9, rag=61.8, few_shot_cot=63.8, self_refine=65.8, self_consistency=65.0, cot_rag=67.5, rar=75.3,
    ),
    _rar(
        "gsm_hard", "GSMHard", "accuracy", ids="paper",
        direct=51.3, rag=56.8, ircot=60.3, flare=61.3, few_shot_cot=44.7, self_refine=55.4, self_consistency=52.8,
        cot_rag=67.3, rar=69.3,
    ),
    _rar(
        "minecraft", "planning", "executability",
        direct=19.3, rag=33.0, ircot=57.3, flare=59.4, few_shot_cot=49.3, self_refine=50.5, self_consistency=50.2,
        cot_rag=50.4, rar=60.5,
    ),
    Claim(
        paper="cr_planner", source="CR-Planner, table 1, GPT-4, USACO", task="usaco", metric="pass@1",
        figures={
            "direct": 10.10, "cot": 12.38, "rag": 8.47, "chain_of_knowledge": 8.14, "reflexion": 13.36,
            "cr_planner": 17.59,
        },
    ),
    Claim(
        paper="cr_planner", source="CR-Planner, table 2, GPT-4, TheoremQA-Math", task="theoremqa_math",
        metric="accuracy",
        figures={"direct": 39.81, "cot": 41.75, "rag": 44.17, "chain_of_knowledge": 45.15, "cr_planner": 53.40},
    ),
    _ranking("bright:{data}/bright/biology", "StackBio", (19.20, 21.06, 20.82, 29.51)),
    _ranking("bright:{data}/bright/economics", "StackEcon", (14.90, 16.33, 17.45, 22.80)),
    Claim(
        paper="search_agent", source="ReST meets ReAct, table 1, pre-trained PaLM 2-L", task="bamboogle",
        metric="auto-eval", figures={"rag": None, "search_agent": 70.3},
    ),
    Claim(
        paper="search_agent", source="ReST meets ReAct, table 2, pre-trained PaLM 2-L, rated by people",
        task="bamtwoogle", metric="auto-eval", figures={"rag": None, "search_agent": 68.0},
    ),
    _rewriter("hotpotqa", "HotpotQA", "token F1", (43.05, 41.34, 43.85)),
    _rewriter("ambignq", "AmbigNQ", "token F1", (53.05, 58.50, 58.95)),
    _rewriter("popqa", "PopQA", "token F1", (44.61, 47.53, 49.74)),
    _rewriter("gaokao", "gaokao", "exact match", (48.3, 55.81, 58.18)),
    _rewriter("jec_qa", "JEC-QA", "exact match", (21.1, 24.4, 28.4)),
)  # fmt: skip


def chosen(preset: str) -> list[Claim]:
    """The claims of a preset: all, or a paper's, such as rat-claims. Raises ConfigurationError for an unknown one."""
    groups = {claim.paper + SUFFIX: claim.paper for claim in CLAIMS}
    if preset != ALL and preset not in groups:
        raise ConfigurationError(f"no preset is called {preset!r}; {did_you_mean(preset, {ALL, *groups})}")
    return [claim for claim in CLAIMS if preset == ALL or claim.paper == groups[preset]]


def claim_tables(found: Sequence[tuple[Claim, Sequence[Row]]]) -> list[Table]:
    """What was published beside what was measured, by method; and the gain of the paper's own method over its rival."""
    scores = Table(
        "Published and measured", ["claim", "method", "metric", "published", "here", "95 %", "questions"], []
    )
    gains = Table("The paper's gain", ["claim", "method", "over", "published", "here", "95 %", "p"], [])
    for claim, rows in found:
        for row in rows:
            said, metric = claim.figures.get(row.config.method), row.summary.metrics.get(claim.metric)
            here = [NOTHING] * 2 if metric is None else [number(metric.mean), interval(metric.low, metric.high)]
            name = label(row.config)
            scores.rows.append([claim.name, name, claim.metric, _share(said), *here, str(row.summary.questions)])
        gains.rows.extend(_gain(claim, rows))
    return [scores, gains]


def _gain(claim: Claim, rows: Sequence[Row]) -> list[list[str]]:
    """A line for each budget at which both were measured."""
    lines = []
    for row in rows:
        rivals = [each for each in rows if each.config.method == claim.rival and each.comparable == row.comparable]
        if row.config.method != claim.own or not rivals:
            continue
        found = compare(*(question_scores(claim.metric, each.records) for each in (row, rivals[0])))
        said, other = claim.figures[claim.own], claim.figures[claim.rival]
        gain = None if said is None or other is None else said - other
        difference = found.difference
        here = [number(difference.mean, sign=True), interval(difference.low, difference.high), number(found.p)]
        lines.append([claim.name, label(row.config), claim.rival, _share(gain, sign=True), *here])
    return lines


def _share(percent: float | None, *, sign: bool = False) -> str:
    return number(None if percent is None else percent / 100, sign=sign)
