"""`reground show` for trees."""

import io

from rich.console import Console

from reground.app.cli import run
from reground.app.cli.show import show_tree
from reground.core.evidence import Passage
from reground.core.trajectory import Trajectory, write_trajectories
from reground.evaluation.trees import read_tree, tree_of, tree_text, write_tree
from reground.methods.cr_planner.states import Observation, State
from reground.methods.cr_planner.tree import encode
from reground.treesearch.mcts import Node, Settings, Tree
from tests.training.hand_made import grown, planted, waiting

HOSTILE = "[bold red]hot[/] \x1b[2J\x07 \u202e" + "wide 漢字 " * 40


def shown(tree, width=60, **how):
    out = io.StringIO()
    plain = tree_of(tree_text(tree, encode), lambda value, parent: value)
    show_tree(Console(file=out, width=width, highlight=False), plain, **how)  # type: ignore[arg-type]
    return out.getvalue().splitlines()


def test_a_node_a_line_with_the_next_to_try_first():
    document = Passage(id="d", title="Danube", text="Long.")
    tree = grown(
        waiting(State("How long?"), "RETRIEVE"),
        (Observation("DOC", "Nothing new was found."), 0.0, 0),
        (Observation("DOC", "Short.", Passage(id="s", text="Short.")), 0.25, 8),
        (Observation("DOC", "Long.", document), 0.5, 4),
    )
    assert shown(tree) == [
        "passage_tokens 100, example q",
        "0.333   12  ROOT  How long?",
        "  0.500    4  DOC  Danube: Long.",
        "  0.250    8  DOC  Short.",
        "  not tried    0  DOC  Nothing new was found.",
    ]


def test_hostile_text_stays_text_and_within_its_line():
    tree = grown(waiting(State("Q?"), "REASON"), (Observation("RATIONALE", HOSTILE), 1.0, 1))
    line = shown(tree)[2]
    assert "[bold red]hot[/]" in line and line.endswith("...")
    assert not {"\x1b", "\x07", "\u202e"} & set(line)
    whole = shown(tree, full=True)
    assert "".join(whole).count("漢字") == 40
    assert not {"\x1b", "\x07", "\u202e"} & set("".join(whole))


def test_a_file_that_cannot_be_read_is_named_and_the_others_are_shown(tmp_path, capsys):
    for number, name in enumerate(("a", "b", "c")):
        trajectory = Trajectory(id=f"{name}~0", question=f"Question {number}?", method="direct")
        write_trajectories(tmp_path / "runs" / name / "trajectories.jsonl", [trajectory])
        write_tree(tmp_path / "out" / "trees" / f"{name}.json", chain(2), encode)
    (tmp_path / "runs" / "b" / "trajectories.jsonl").write_text("{\n")
    (tmp_path / "out" / "trees" / "b.json").write_text('{"format": "reground-tree')
    for place, broken in (("runs", "trajectories.jsonl"), ("out", "b.json")):
        assert run(["show", str(tmp_path / place)]) == 2
        said = capsys.readouterr()
        assert len(said.out.splitlines()) == 2
        assert broken in said.err and len(said.err.splitlines()) == 1
    assert run(["show", str(tmp_path / "runs"), "c~0"]) == 2
    said = capsys.readouterr()
    assert "Question 2?" in said.out and "not a trajectory" in said.err


def test_what_lies_deeper_is_counted():
    tree = chain(9)
    lines = shown(tree)
    assert lines[1:3] == ["1.000    1  ROOT  0", "  1.000    1  RATIONALE  1"]
    assert lines[-1] == "              ... 3 nodes below"
    assert len(shown(tree, full=True)) == 1 + 2 * 10
    assert len(shown(chain(3000), full=True)) == 1 + 2 * 3001


def chain(depth):
    node = Node(
        state=State("0").after(Observation("RATIONALE", str(depth))),
        label="RATIONALE",
        visits=1,
        value=1.0,
        rewards=(1.0,),
    )
    for level in range(depth - 1, -1, -1):
        state = State("0").after(Observation("RATIONALE", str(level))) if level else State("0")
        label = "RATIONALE" if level else ""
        node = Node(state=state, label=label, visits=1, value=1.0, expanded=True, children=(node,))
    return Tree(root=node, settings=Settings())


def test_a_training_folder_lists_its_trees_and_shows_one(tmp_path, capsys):
    planted(tmp_path / "out", 3)
    assert run(["show", str(tmp_path / "out")]) == 0
    assert capsys.readouterr().out.splitlines()[1] == "q1  8 visits, mean 0.500  Where does the boat number 1 sail?"
    for order in (["q1"], ["-n", "2"]):
        assert run(["show", str(tmp_path / "out"), *order]) == 0
        assert "It sails on the river Seine." in capsys.readouterr().out
    assert run(["show", str(tmp_path / "out" / "trees" / "q2.json")]) == 0
    assert "It sails on the river" in capsys.readouterr().out
    assert run(["show", str(tmp_path / "out"), "q7"]) == 2
    assert "holds nothing of 'q7'; did you mean q2" in capsys.readouterr().err


def test_what_is_no_tree_is_told_of(tmp_path, capsys):
    (tmp_path / "x.json").write_text('{"format": "reground.tree", "version": 9}')
    assert run(["show", str(tmp_path / "x.json")]) == 2
    assert "x.json: not a tree of version 1: version: " in capsys.readouterr().err
    write_tree(
        tmp_path / "list.json", Tree(root=Node(state=[1, "a"], visits=0), settings=Settings()), lambda state, _: state
    )
    assert read_tree(tmp_path / "list.json").root.state == [1, "a"]
    assert run(["show", str(tmp_path / "list.json")]) == 0
    assert "[1, 'a']" in capsys.readouterr().out
