import asyncio

import pytest
from hypothesis import given

from reground.treesearch.mcts import search
from reground.treesearch.tree import Node, Settings, address, lineage, most_visited, pairs, walk
from tests.treesearch.games import Leaves, trees


def node(label, *rewards, children=()):
    return Node(
        state=label,
        label=label,
        visits=len(rewards) + sum(child.visits for child in children),
        value=sum(rewards) + sum(child.value for child in children),
        rewards=rewards,
        expanded=bool(children),
        children=tuple(children),
    )


LEFT = node("left", 0.0, children=[node("ll", 1.0, 1.0), node("lr", 0.0, 1.0)])
RIGHT = node("right", 0.5)
NEVER = node("never")
ROOT = node("root", children=[LEFT, RIGHT, NEVER])


def found(root, **options):
    return [(pair.path, pair.chosen.label, pair.rejected.label, pair.margin) for pair in pairs(root, **options)]


def test_means_and_terminal_nodes():
    assert LEFT.mean == pytest.approx(0.6)
    assert NEVER.mean is None
    assert not NEVER.terminal  # nobody asked what follows
    assert Node(state="end", expanded=True).terminal
    assert not LEFT.terminal


def test_a_walk_meets_parents_first_and_siblings_in_order():
    assert [(path, n.label) for path, n in walk(ROOT)] == [
        ((), "root"),
        ((0,), "left"),
        ((0, 0), "ll"),
        ((0, 1), "lr"),
        ((1,), "right"),
        ((2,), "never"),
    ]


def test_a_lineage_leads_from_the_root():
    assert [n.label for n in lineage(ROOT, (0, 1))] == ["root", "left", "lr"]
    assert lineage(ROOT, ()) == (ROOT,)
    with pytest.raises(IndexError):
        lineage(ROOT, (0, 2))


def test_most_visited_then_higher_mean_then_first():
    assert most_visited(ROOT) is LEFT
    low, high, same = node("low", 0.0), node("high", 1.0), node("same", 1.0)
    assert most_visited(node("p", children=[low, high, same])) is high
    assert most_visited(node("p", children=[NEVER, node("loss", -1.0)])).label == "loss"
    with pytest.raises(ValueError, match="empty"):
        most_visited(NEVER)


def test_the_best_child_is_preferred_to_each_lower_sibling_of_the_same_parent():
    assert found(ROOT) == [((), "left", "right", pytest.approx(0.1)), ((0,), "ll", "lr", 0.5)]
    first = next(pairs(ROOT))
    assert first.parent is ROOT
    assert first.chosen is LEFT


def test_one_is_chosen_and_several_are_rejected():
    parent = node("p", children=[node("a", 0.0), node("b", 1.0), node("c", 0.5), node("d", 1.0, 1.0)])
    # b and d are equally good: the one seen more often is chosen, and the other is not worse
    assert found(parent) == [((), "d", "a", 1.0), ((), "d", "c", 0.5)]


def test_children_seen_too_seldom_and_margins_too_small_give_no_pair():
    assert found(ROOT, min_visits=2) == [((0,), "ll", "lr", 0.5)]
    assert found(ROOT, min_margin=0.2) == [((0,), "ll", "lr", 0.5)]
    assert found(ROOT, min_margin=0.5) == [((0,), "ll", "lr", 0.5)]
    assert found(ROOT, min_visits=3) == []
    with pytest.raises(ValueError, match="min_visits"):
        next(pairs(ROOT, min_visits=0))


@given(trees)
def test_what_holds_of_every_pair(game):
    root = asyncio.run(search(Leaves(), game, Settings(simulations=40))).root
    rejected = set()
    for pair in pairs(root):
        assert lineage(root, pair.path)[-1] is pair.parent
        assert pair.chosen in pair.parent.children
        assert pair.rejected in pair.parent.children
        assert pair.margin == pair.chosen.mean - pair.rejected.mean > 0
        assert pair.chosen.mean == max(child.mean for child in pair.parent.children if child.visits)
        rejected.add(id(pair.rejected))
    for _, parent in walk(root):
        means = [child.mean for child in parent.children if child.visits]
        for child in parent.children:
            assert (id(child) in rejected) == (child.visits > 0 and child.mean < max(means))


def test_addresses_name_places_and_simulations():
    assert [address(()), address((0,)), address((0, 12)), address((0, 12), 3), address((), 0)] == [
        "root",
        "0",
        "0-12",
        "0-12-v3",
        "root-v0",
    ]
