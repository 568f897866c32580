import asyncio
import json
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.core.errors import DataError
from reground.evaluation.trees import read_tree, tree_of, tree_text, write_tree
from reground.treesearch.mcts import Child, Settings, Tree, search, walk
from tests.core.strategies import json as json_values
from tests.treesearch.games import Leaves, trees


def plain(state, parent):
    return state


def rows(tree):
    return [(path, n.state, n.label, n.visits, n.value, n.rewards, n.copies, n.expanded) for path, n in walk(tree.root)]


def searched(game=([1.0, 0.5], 0.25), **settings):
    return asyncio.run(search(Leaves(), _lists(game), Settings(**{"simulations": 12, **settings})))


def _lists(game):
    return [_lists(item) for item in game] if isinstance(game, list | tuple) else game


@given(
    trees,
    st.integers(1, 40),
    st.none() | st.text(st.characters(codec="utf-8")),
    st.dictionaries(st.text("ab"), json_values),
)
def test_a_tree_comes_back_from_its_file(tmp_path_factory, game, simulations, stopped, metadata):
    path = tmp_path_factory.mktemp("trees") / "deeper" / "tree.json"
    tree = searched(game, simulations=simulations, in_flight=2)
    tree = replace(tree, stopped=stopped, metadata=metadata)
    write_tree(path, tree, plain)
    again = read_tree(path)
    assert rows(again) == rows(tree)
    assert (again.settings, again.stopped, again.metadata) == (tree.settings, stopped, metadata)
    assert [p.name for p in path.parent.iterdir()] == ["tree.json"]


def test_the_file_is_as_the_module_says():
    tree = searched((1.0, 0.5), simulations=4, c=0.5)
    data = json.loads(tree_text(tree, plain))
    assert list(data) == ["format", "version", "settings", "stopped", "metadata", "nodes"]
    assert (data["format"], data["version"], data["stopped"], data["metadata"]) == ("reground.tree", 1, None, {})
    assert data["settings"]["c"] == 0.5
    root, good, poor = data["nodes"]
    assert good == {
        "parent": 0,
        "label": "0",
        "state": 1.0,
        "visits": 3,
        "value": 3.0,
        "rewards": [1.0, 1.0, 1.0],
        "copies": 1,
        "data": {},
        "expanded": True,
    }
    assert (root["parent"], root["visits"], root["value"], root["rewards"]) == (None, 4, 3.5, [])
    assert (poor["parent"], poor["visits"], poor["expanded"]) == (0, 1, False)


class Growing:
    """States that hold everything before them."""

    async def expand(self, state, path, /):
        return [Child(state=(*state, word)) for word in ("sea", "hill")] if len(path) < 3 else []

    async def simulate(self, state, path, visit, /):
        return float(state.count("sea"))


async def test_a_state_may_be_written_as_what_it_adds(tmp_path):
    tree = await search(Growing(), ("moor",), Settings(simulations=20))
    path = tmp_path / "tree.json"
    write_tree(path, tree, lambda state, parent: state[len(parent or ()) :])
    again = read_tree(path, lambda added, parent: (*(parent or ()), *added))
    assert rows(again) == rows(tree)
    deepest = [node["state"] for node in json.loads(path.read_text())["nodes"]]
    assert max(map(len, deepest)) == 1


@pytest.mark.parametrize("state", [object(), float("nan"), {1, 2}])
def test_what_is_not_json_leaves_the_old_file_as_it_was(tmp_path, state):
    path = tmp_path / "tree.json"
    write_tree(path, searched(), plain)
    before = path.read_bytes()
    with pytest.raises((TypeError, ValueError)):
        write_tree(path, searched(), lambda *_: state)
    assert path.read_bytes() == before


ABSENT = object()


def changed(data, *place, to=ABSENT):
    """The data, with another value at a place, or none."""
    *above, key = place
    inner = data
    for each in above:
        inner = inner[each]
    if to is ABSENT:
        del inner[key]
    else:
        inner[key] = to
    return data


BROKEN = [
    (("format",), "other", "format: "),
    (("version",), 2, "version: "),
    (("metadata",), ABSENT, "metadata: "),
    (("nodes",), [], "nodes: "),
    (("settings", "c"), -1, "c must be a finite number"),
    (("nodes", 1), 7, r"nodes\.1: "),
    (("nodes", 2, "state"), ABSENT, r"nodes\.2\.state: "),
    (("nodes", 2, "visits"), 1.0, r"nodes\.2\.visits: "),
    (("nodes", 2, "rewards"), ["x" * 60], r"nodes\.2\.rewards\.0: "),
    (("nodes", 2, "copies"), 0, r"nodes\.2\.copies: "),
    (("nodes", 0, "parent"), 0, "node 0: parent 0 must be"),
    (("nodes", 2, "parent"), 2, "node 2: parent 2 must be"),
]


@pytest.mark.parametrize(("place", "to", "complaint"), BROKEN)
def test_a_broken_file_is_refused_by_name_and_place(tmp_path, place, to, complaint):
    data = changed(json.loads(tree_text(searched(), plain)), *place, to=to)
    path = tmp_path / "tree.json"
    path.write_text(json.dumps(data))
    with pytest.raises(DataError, match=complaint) as refused:
        read_tree(path)
    assert str(refused.value).startswith(f"{path}: ")


@pytest.mark.parametrize("content", [b"", b"{", b"[" * 10**5, b"[]", b"\xff"])
def test_what_is_no_tree_at_all_is_refused(tmp_path, content):
    path = tmp_path / "tree.json"
    path.write_bytes(content)
    with pytest.raises(DataError, match="not a tree"):
        read_tree(path)
    with pytest.raises(DataError, match="cannot be read: No such file"):
        read_tree(tmp_path / "absent.json")


@pytest.mark.parametrize("error", [ValueError("odd"), TypeError("odd"), KeyError("odd")])
def test_a_state_that_cannot_be_decoded_says_where(tmp_path, error):
    def decode(value, parent):
        if value == 0.25:
            raise error
        return value

    path = tmp_path / "tree.json"
    write_tree(path, searched(), plain)
    with pytest.raises(DataError, match=r"node 4: its state cannot be read: .*odd") as refused:
        read_tree(path, decode)
    assert refused.value.__cause__ is error


@given(st.data())
def test_any_damage_is_refused_or_harmless(data):
    damaged = json.loads(tree_text(searched(), plain))
    inner, key = damaged, data.draw(st.sampled_from(sorted(damaged)))
    while isinstance(inner[key], dict | list) and inner[key] and data.draw(st.booleans()):
        inner = inner[key]
        key = data.draw(st.sampled_from(range(len(inner)) if isinstance(inner, list) else sorted(inner)))
    inner[key] = data.draw(json_values)
    with suppress(ValueError):
        assert isinstance(tree_of(json.dumps(damaged), plain), Tree)
