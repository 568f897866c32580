import pytest

from reground.treesearch.mcts import Node, address, walk


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


def test_addresses_name_places_and_simulations():
    assert [address(()), address((0,)), address((0, 12)), address((0, 12), 3), address((), 0)] == [
        "root",
        "0",
        "0-12",
        "0-12-v3",
        "root-v0",
    ]
