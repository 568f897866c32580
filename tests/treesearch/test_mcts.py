import asyncio
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from reground.treesearch.mcts import Child, Settings, address, search, ucb1, walk
from tests.treesearch.games import Died, Leaves, Recorded, Uneven, trees
from tests.treesearch.reference import reference

some_settings = st.builds(
    Settings,
    simulations=st.integers(1, 60),
    c=st.floats(0, 3),
    in_flight=st.integers(1, 12),
    seed=st.integers(0, 5),
)


def table(tree):
    """Visits, value and rewards by path."""
    return {path: (node.visits, node.value, node.rewards) for path, node in walk(tree.root)}


def visited(tree):
    return {path: row for path, row in table(tree).items() if row[0]}


def test_ucb1_is_the_papers_formula():
    assert ucb1(3.0, 4, 10, 0.5) == pytest.approx(3 / 4 + 0.5 * math.sqrt(math.log(10) / 4))
    assert ucb1(3.0, 4, 10, 0.5) == pytest.approx(1.1293568, abs=1e-6)
    assert ucb1(1.0, 2, 8, 1.0) == pytest.approx(1.5196670, abs=1e-6)
    assert ucb1(5.0, 5, 5, 0.0) == 1.0
    assert ucb1(0.0, 0, 7, 1.0) == math.inf


class Told(Leaves):
    """Writes down what it is asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    async def expand(self, state, path, /):
        self.asked.append(("expand", path))
        return await super().expand(state, path)

    async def simulate(self, state, path, visit, /):
        self.asked.append(("simulate", path, visit))
        return await super().simulate(state, path, visit)


async def test_the_four_steps_in_order():
    game = Told()
    tree = await search(game, [[0.5, 1.0]], Settings(simulations=4, c=0.0))
    first, second = (0, 0), (0, 1)
    if game.asked[3][1] == second:  # the lot's to say
        first, second = second, first
    assert game.asked == [
        ("expand", ()),
        ("simulate", (0,), 0),
        ("expand", (0,)),
        ("simulate", first, 0),
        ("simulate", second, 0),
        *game.asked[5:],
    ]
    # greedy: the better leaf is taken again; it turns out to be terminal, and is simulated where it stands
    assert game.asked[5:] == [("expand", (0, 1)), ("simulate", (0, 1), 1)]
    leaf = tree.root.children[0].children[1]
    assert (leaf.visits, leaf.value, leaf.rewards) == (2, 2.0, (1.0, 1.0))
    assert (tree.root.visits, tree.root.rewards) == (4, ())
    assert tree.root.value == sum(node.value for node in tree.root.children)


@given(trees, some_settings, st.integers(0, 3), st.booleans())
def test_any_timing_gives_the_tree_of_the_plain_reference(game, settings, timing, noise):
    rules = Leaves(seed=timing, noise=noise)
    tree = asyncio.run(search(Uneven(rules, timing), game, settings))
    assert visited(tree) == reference(rules, game, settings)
    assert (tree.root.visits, tree.settings, tree.stopped) == (settings.simulations, settings, None)
    for _, node in walk(tree.root):
        assert (node.mean is None) == (node.visits == 0)
        assert node.expanded or not node.children


@given(trees, some_settings, st.integers(0, 40), st.integers(0, 3))
def test_a_search_that_died_and_was_started_again_gives_the_same_tree_and_pays_nothing_twice(game, settings, limit, t):
    rules = Leaves(noise=True)
    whole = Recorded(Uneven(rules, t), {})
    expected = asyncio.run(search(whole, game, settings))

    journal = {}
    first = Recorded(Uneven(rules, t + 1), journal, limit)
    try:
        asyncio.run(search(first, game, settings))
    except Died:
        assert first.calls == limit
    second = Recorded(Uneven(rules, t + 2), journal)
    tree = asyncio.run(search(second, game, settings))

    assert table(tree) == table(expected)
    assert journal.keys() == whole.journal.keys()
    assert first.calls + second.calls == whole.calls


class Gates(Leaves):
    """Simulations that end when they are told to."""

    def __init__(self):
        super().__init__()
        self.gates = []
        self.running = 0
        self.most_running = 0

    async def simulate(self, state, path, visit, /):
        gate = asyncio.Event()
        self.gates.append(gate)
        self.running += 1
        self.most_running = max(self.most_running, self.running)
        await gate.wait()
        self.running -= 1
        return await super().simulate(state, path, visit)


async def _turns():
    for _ in range(20):
        await asyncio.sleep(0)


async def test_a_new_simulation_starts_as_soon_as_the_oldest_ends_while_the_others_go_on():
    game = Gates()
    task = asyncio.create_task(search(game, [0.1, 0.2, 0.3, 0.4, 0.5], Settings(simulations=7, in_flight=3)))
    await _turns()
    assert len(game.gates) == 3
    game.gates[1].set()  # not the oldest: its reward may not be seen yet
    await _turns()
    assert len(game.gates) == 3
    game.gates[0].set()
    await _turns()
    assert len(game.gates) == 5  # both places are taken again, and the third simulation is still on its way
    for _ in range(4):
        for gate in game.gates:
            gate.set()
        await _turns()
    assert (await task).root.visits == 7
    assert game.most_running == 3


async def test_a_selection_waits_for_children_on_their_way_and_the_others_go_on():
    class Late(Leaves):
        def __init__(self):
            super().__init__()
            self.gate = asyncio.Event()
            self.simulated = []

        async def expand(self, state, path, /):
            if path:
                await self.gate.wait()
            return await super().expand(state, path)

        async def simulate(self, state, path, visit, /):
            self.simulated.append(path)
            return await super().simulate(state, path, visit)

    game = Late()
    task = asyncio.create_task(search(game, [[0.1, 0.2]], Settings(simulations=3, in_flight=3)))
    await _turns()
    assert game.simulated == [(0,)]
    game.gate.set()
    tree = await task
    assert sorted(game.simulated) == [(0,), (0, 0), (0, 1)]
    assert [child.visits for child in tree.root.children[0].children] == [1, 1]


class Breaks(Leaves):
    """Fails at the given places."""

    def __init__(self, errors, *, late=()):
        super().__init__()
        self.errors = errors
        self.late = late
        self.ended = []

    async def simulate(self, state, path, visit, /):
        if path in self.late:
            await _turns()
        if path in self.errors:
            raise self.errors[path]
        self.ended.append(path)
        return await super().simulate(state, path, visit)


GAME = [0.1, 0.2, 0.3, 0.4]
PLACES = [(0,), (1,), (2,), (3,)]


async def test_the_first_error_in_the_order_of_selection_is_the_one_raised():
    for seed in range(5):
        first = await search(told := Told(), GAME, Settings(simulations=1, seed=seed))
        assert first.root.visits == 1
        place = told.asked[1][1]
        game = Breaks({path: Died(str(path)) for path in PLACES}, late=[place])
        with pytest.raises(Died) as raised:
            await search(game, GAME, Settings(simulations=50, in_flight=4, seed=seed))
        assert str(raised.value) == str(place)


async def test_an_end_that_was_foreseen_gives_the_tree_so_far_and_says_so():
    game = Breaks({(2,): Died("the money is spent")}, late=PLACES)
    tree = await search(game, GAME, Settings(simulations=50, in_flight=4), until=(Died,))
    assert tree.stopped == "the money is spent"
    visits = [child.visits for child in tree.root.children]
    assert visits[2] == 0
    assert min(visits[:2] + visits[3:]) == 1  # those in flight have finished and count
    assert tree.root.visits == sum(visits) < 10
    tree = await search(Breaks({(2,): Died()}), GAME, Settings(simulations=50, in_flight=4), until=(Died,))
    assert tree.stopped == "Died"


async def test_an_error_that_was_not_foreseen_is_raised_even_where_another_was():
    for first, second in (((0,), (1,)), ((1,), (0,))):
        game = Breaks({first: Died("foreseen"), second: KeyError("not")}, late=PLACES)
        with pytest.raises(KeyError):
            await search(game, GAME, Settings(simulations=50, in_flight=4), until=(Died,))


async def test_cancellation_reaches_every_simulation_at_once():
    game = Gates()
    task = asyncio.create_task(search(game, GAME, Settings(simulations=50, in_flight=4)))
    await _turns()
    assert game.running == 4
    before = asyncio.all_tasks()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert len(before) == 6  # this test, the search, four simulations
    assert asyncio.all_tasks() == {asyncio.current_task()}


@pytest.mark.parametrize("reward", [math.nan, math.inf])
async def test_a_reward_must_be_finite(reward):
    with pytest.raises(ValueError, match=r"reward of 0-v0 must be finite"):
        await search(Leaves(), [reward], Settings(simulations=1))


async def test_equal_candidates_are_one_child():
    class Words(Leaves):
        async def expand(self, state, path, /):
            words = ["sea", "Sea", "hill", "SEA", "moor"] if not path else []
            return [Child(state=word, label=word, key=None if word == "hill" else word.lower()) for word in words]

        async def simulate(self, state, path, visit, /):
            return 0.0

    tree = await search(Words(), "", Settings(simulations=6))
    assert [(child.label, child.copies) for child in tree.root.children] == [("sea", 3), ("hill", 1), ("moor", 1)]
    assert sum(child.visits for child in tree.root.children) == 6


async def test_whoever_watches_is_told_in_the_order_of_selection():
    told = []
    settings = Settings(simulations=9, in_flight=4)
    tree = await search(Uneven(Leaves(), 1), GAME, settings, watch=lambda *each: told.append(each))
    assert [number for number, _ in told] == list(range(1, 10))
    assert sum(reward for _, reward in told) == pytest.approx(tree.root.value)
    assert sorted(reward for _, reward in told[:4]) == GAME, "each child is tried before one is tried again"


@pytest.mark.parametrize(
    ("name", "value"),
    [("simulations", 0), ("in_flight", 0), ("c", -0.1), ("c", math.nan)],
)
def test_settings_that_cannot_be_are_refused_by_name(name, value):
    with pytest.raises(ValueError, match=f"{name}.* must be a"):
        Settings(**{name: value})


def test_addresses_name_places_and_simulations():
    places = [address(()), address((0,)), address((0, 12)), address((0, 12), 3), address((), 0)]
    assert places == ["root", "0", "0-12", "0-12-v3", "root-v0"]
