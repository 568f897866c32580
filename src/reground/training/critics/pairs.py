"""From trees to the four sets of preferences: D_SUBGOAL, D_RATIONALE, D_QUERY and D_DOC (CR-Planner, section 2.3).

At every parent the child with the highest mean reward is chosen, and each sibling with a lower one is rejected. The
paper keeps them all; here thin nodes, ties and small margins can be left out, because the mean of a few rewards is
mostly noise.

A question's pairs are all for training or all held out. The same trees and settings give the same files, byte by byte.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from pathlib import Path
from typing import Any, Literal

from pydantic import JsonValue

from reground.core.errors import DataError
from reground.core.trajectory import Pair
from reground.critics import KINDS, Kind
from reground.critics.scorers import Item, Scorer
from reground.critics.trained import features
from reground.evaluation.results import write_text
from reground.evaluation.task import Task
from reground.evaluation.tasks.qa import QuestionAnswering, gold_ids
from reground.evaluation.tasks.retrieval import Retrieval, document_id
from reground.methods.cr_planner import judged
from reground.methods.cr_planner.states import State
from reground.training.critics.collect import read_trees
from reground.training.rows import Preference, write_rows
from reground.training.settings import PairSettings
from reground.treesearch.mcts import Node, Tree, walk

Why = Literal["few visits", "tie", "small margin", "against gold"]
Part = Literal["training", "held out"]
Gold = Mapping[str, frozenset[str]]
"""The gold passages of each question, by ids."""

DROPPED: tuple[Why, ...] = ("few visits", "tie", "small margin", "against gold")
PARTS: tuple[Part, ...] = ("training", "held out")
GOLD_MARGIN = 1.0
"""The margin of a pair that the gold passages order: a whole reward."""
_FIELDS = ("goal", "logprob", "passage", "score")


@dataclass
class Sorted:
    """The pairs of some trees by part and kind, and the number dropped of each kind by reason."""

    rows: dict[tuple[Part, Kind], list[Preference]] = field(default_factory=dict)
    dropped: dict[Kind, Counter[Why]] = field(default_factory=lambda: {kind: Counter() for kind in KINDS})
    questions: dict[Part, int] = field(default_factory=dict)
    trees: int = 0
    passage_tokens: int = 0

    def report(self, settings: PairSettings) -> dict[str, JsonValue]:
        """The content of data/report.json."""
        kinds: dict[str, JsonValue] = {
            kind: {
                "kept": {part: len(self.rows.get((part, kind), ())) for part in PARTS},
                "dropped": {why: self.dropped[kind][why] for why in DROPPED},
            }
            for kind in KINDS
        }
        return {
            "settings": dataclasses.asdict(settings),
            "trees": self.trees,
            "passage_tokens": self.passage_tokens,
            "questions": {part: self.questions.get(part, 0) for part in PARTS},
            "kinds": kinds,
        }


def make_pairs(out: Path, settings: PairSettings, gold: Gold | None = None) -> Sorted:
    """Write data/<kind>.jsonl, data/held-out/<kind>.jsonl and data/report.json from the trees of a training folder.

    gold: the gold passages by question, for `gold_documents`. The report comes last: where it stands, the data is
    whole. Raises DataError as `read_trees` does.
    """
    folder = out / "data"
    (folder / "report.json").unlink(missing_ok=True)
    pairs = sort_pairs(list(read_trees(out)), settings, gold)
    for kind in KINDS:
        write_rows(folder / f"{kind}.jsonl", pairs.rows.get(("training", kind), []))
        write_rows(folder / "held-out" / f"{kind}.jsonl", pairs.rows.get(("held out", kind), []))
    write_text(folder / "report.json", json.dumps(pairs.report(settings), indent=2) + "\n")
    return pairs


def data_fingerprint(out: Path) -> str:
    """What tells the pairs of a training folder, those held out among them, from others."""
    digest = hashlib.sha256()
    for file in sorted((out / "data").rglob("*.jsonl")):
        digest.update(file.relative_to(out).as_posix().encode() + b"\0" + file.read_bytes())
    return digest.hexdigest()[:16]


def passage_tokens(out: Path) -> int:
    """Where the documents in a folder's pairs are cut. Raises DataError where the data is not whole."""
    file = out / "data" / "report.json"
    try:
        return int(json.loads(file.read_text(encoding="utf-8"))["passage_tokens"])
    except (OSError, ValueError, KeyError, TypeError):
        raise DataError("the data is not whole: run the data stage again", path=file) from None


def sort_pairs(trees: Sequence[Tree[State]], settings: PairSettings, gold: Gold | None = None) -> Sorted:
    """Every pair of the trees in its set, and the reasons of those that are in none."""
    cuts = {int(tree.metadata["passage_tokens"]) for tree in trees}
    if len(cuts) > 1:
        raise DataError(f"these trees cut documents at different lengths ({', '.join(map(str, sorted(cuts)))} tokens)")
    pairs = Sorted(trees=len(trees), passage_tokens=max(cuts, default=0))
    aside = held_out((tree.root.state.question for tree in trees), settings)
    keys = {part_key(tree.root.state.question) for tree in trees}
    pairs.questions = {"training": len(keys - aside), "held out": len(aside)}
    for tree in trees:
        part = PARTS[part_key(tree.root.state.question) in aside]
        golds = (gold or {}).get(str(tree.metadata["example"]), frozenset()) if settings.gold_documents else frozenset()
        for kind, pair in tree_pairs(tree, settings, golds):
            if isinstance(pair, Preference):
                pairs.rows.setdefault((part, kind), []).append(pair)
            else:
                pairs.dropped[kind][pair] += 1
    return pairs


def tree_pairs(
    tree: Tree[State], settings: PairSettings, gold: frozenset[str] = frozenset()
) -> Iterator[tuple[Kind, Preference | Why]]:
    """The pairs of one tree; for a pair of siblings that is dropped, the reason."""
    for _, parent in walk(tree.root):
        ids = set()
        for best, child, why in _ranked(parent, settings):
            if why is None:
                ids.add((id(best), id(child)))
                why = "against gold" if _is_gold(child, gold) > _is_gold(best, gold) else None
            kind = judged(parent.state, child.state, tokens=1)[0]
            yield kind, _row(tree, parent, best, child, "visits") if why is None else why
        for chosen, rejected in permutations(parent.children, 2) if gold else ():
            if _is_gold(chosen, gold) > _is_gold(rejected, gold) and (id(chosen), id(rejected)) not in ids:
                yield "doc", _row(tree, parent, chosen, rejected, "gold")


def _ranked(parent: Node[State], settings: PairSettings) -> Iterator[tuple[Node[State], Node[State], Why | None]]:
    """Every sibling of the best child with the best child, and why the two make no pair."""
    if len(parent.children) < 2:
        return
    candidates = [child for child in parent.children if child.visits >= settings.min_visits]
    best = max(candidates or parent.children, key=lambda child: (child.mean or 0.0, child.visits))
    for child in parent.children:
        if child is best:
            continue
        margin = _margin(best, child)
        if min(best.visits, child.visits) < settings.min_visits:
            yield best, child, "few visits"
        elif math.isclose(margin, 0, abs_tol=1e-9):  # the same rewards in another order may add up to a little more
            yield best, child, "tie"
        else:
            yield best, child, "small margin" if margin < settings.min_margin else None


def _margin(chosen: Node[State], rejected: Node[State]) -> float:
    return (chosen.mean or 0.0) - (rejected.mean or 0.0)


def _is_gold(child: Node[State], gold: frozenset[str]) -> bool:
    passage = child.state.observations[-1].passage
    return passage is not None and document_id(passage.id, gold) in gold


def _row(
    tree: Tree[State], parent: Node[State], chosen: Node[State], rejected: Node[State], label: Literal["visits", "gold"]
) -> Preference:
    tokens = int(tree.metadata["passage_tokens"])
    kind, better = judged(parent.state, chosen.state, tokens=tokens)
    _, worse = judged(parent.state, rejected.state, tokens=tokens)
    siblings = [{"stage": parent.state.stage, **each.data} for each in parent.children]
    values = features(kind, siblings)

    def about(child: Node[State]) -> dict[str, JsonValue]:
        """What else is known of a candidate: its place among its siblings, which is the planner's or the retriever's
        order; the generator's mean log-probability; a passage's id and its score by the retriever. `known` is these as
        a critic weighs them."""
        place = next(place for place, each in enumerate(parent.children) if each is child)
        return {
            "place": place,
            "known": {**values[place]},
            **{key: child.data[key] for key in _FIELDS if key in child.data},
        }

    return Preference(
        prompt=better.context,
        chosen=better.candidate,
        rejected=worse.candidate,
        margin=_margin(chosen, rejected) if label == "visits" else GOLD_MARGIN,
        kind=kind,
        question=str(tree.metadata["example"]),
        visits=(chosen.visits, rejected.visits),
        extra={"label": label, "stage": parent.state.stage, "chosen": about(chosen), "rejected": about(rejected)},
    )


def part_key(question: str) -> str:
    """What decides a question's part: its wording, without case and spacing."""
    return " ".join(question.casefold().split())


def held_out(questions: Iterator[str], settings: PairSettings) -> set[str]:
    """The keys of the questions that are held out: a share of them, at least one where there are two or more."""

    def lot(key: str) -> bytes:
        return hashlib.sha256(f"{settings.seed} {key}".encode("utf-8", "surrogatepass")).digest()

    keys = sorted({part_key(question) for question in questions}, key=lambda key: (lot(key), key))
    if not settings.held_out or len(keys) < 2:
        return set()
    return set(keys[: min(len(keys) - 1, max(1, round(settings.held_out * len(keys))))])


def gold_passages(task: Task) -> dict[str, frozenset[str]]:
    """The gold passages that a task knows, by question; none where it knows none."""
    if isinstance(task, Retrieval):
        return {
            query: frozenset(document for document, grade in grades.items() if grade > 0)
            for query, grades in task.qrels.items()
        }
    if not isinstance(task, QuestionAnswering):
        return {}
    golds = {example.id: gold_ids(example) for example in task.examples()}
    return {name: frozenset(ids) for name, ids in golds.items() if not isinstance(ids, str)}


def about(row: Preference, side: str) -> dict[str, Any]:
    """What else is known of the chosen or the rejected text."""
    details = row.extra.get(side)
    return details if isinstance(details, dict) else {}


def item(row: Preference, candidate: str) -> Item:
    """One of the two texts of a row, with its kind and context."""
    return row.kind, Pair(context=row.prompt, candidate=candidate)  # type: ignore[return-value]


def gaps(rows: Sequence[Preference], scorer: Scorer) -> list[float]:
    """By how much the better text of each pair scores higher."""
    better = scorer.scores([item(row, row.chosen) for row in rows])
    worse = scorer.scores([item(row, row.rejected) for row in rows])
    return [one - other for one, other in zip(better, worse, strict=True)]
