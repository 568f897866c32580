from __future__ import annotations

import json

import pytest

from reground.core.answers import PLAN, Answer
from reground.core.errors import DataError
from reground.core.journal import MemoryJournal
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Task, as_read
from reground.evaluation.tasks.longform import Judge, JudgedTask
from reground.models.scripted import ScriptedModel
from reground_minecraft.parser import parse_plan
from reground_minecraft.simulator import Planner, simulate
from reground_minecraft.task import DEMONSTRATED, EXAMPLE, TARGETS, TASKS, MinecraftTask, write_corpus
from reground_minecraft.world import load_world
from tests.data import need_data
from tests.minecraft.small import write_recipes


@pytest.fixture(scope="module")
def task(tmp_path_factory):
    return TASKS["minecraft"](write_recipes(tmp_path_factory.mktemp("data")))


def example_of(task, target):
    return next(example for example in task.examples() if example.metadata["target"] == target)


async def scored(task, target, text):
    answer = None if text is None else Answer(text=text)
    trajectory = Trajectory(id="x", question="q", method="direct", answer=answer)
    return await task.score(example_of(task, target), trajectory, None)


def test_it_is_a_task(task):
    assert isinstance(task, Task)
    assert (task.name, task.form.name, task.primary) == ("minecraft", PLAN.name, "executability")
    assert "Minecraft items: ' and then how many" in task.form.instruction


def test_without_the_example_the_plan_is_described_and_not_shown(task, tmp_path):
    bare = TASKS["minecraft_zero_shot"](write_recipes(tmp_path))
    assert isinstance(bare, Task)
    assert (bare.name, bare.form.name) == ("minecraft_zero_shot", PLAN.name)
    assert task.form.instruction.endswith(bare.form.instruction)
    assert "Minecraft items: ' and then how many" in bare.form.instruction
    for shown in ("ladder", "plan for a", "Oak", "2x"):
        assert shown not in bare.form.instruction
    assert [e.question for e in bare.examples()] == [e.question for e in task.examples()]


def test_examples_tell_group_and_difficulty(task):
    example = example_of(task, "acacia_boat")
    assert example.id == "minecraft-acacia_boat"
    assert "acacia boat?" in example.question
    assert "STEP" not in example.question, "the question is what is searched with"
    assert example.metadata == {"target": "acacia_boat", "group": "wood", "difficulty": 4, "version": "1.16.5"}


async def test_a_reference_plan_scores_full_marks(task):
    for example in task.examples():
        trajectory = Trajectory(id="x", question="q", method="m", answer=Answer(text=example.golden_answers[0]))
        scores = await task.score(example, trajectory, None)
        assert {name: score.value for name, score in scores.items()} == {"executability": 1.0, "partial progress": 1.0}


def test_the_plan_that_the_instruction_shows_is_executable_and_no_target():
    world = load_world(need_data("minecraft").parent)
    outcome = simulate(parse_plan(EXAMPLE), "ladder", world=world, names=Planner(world).names)
    assert outcome.executable, outcome.why
    assert "ladder" not in {item for items in TARGETS.values() for item in items}


async def test_a_broken_plan_says_where_and_gets_its_part(task):
    text = "STEP 1: chop - Minecraft items: 3x Oak Log\nSTEP 2: craft - Minecraft items: 1x Crafting Table"
    scores = await scored(task, "wooden_pickaxe", text)
    assert scores["executability"].value == 0.0
    assert scores["executability"].why == "step 2: crafting_table needs 4 planks of any kind, have 0"
    assert scores["partial progress"].value == pytest.approx(1 / 5)
    assert scores["partial progress"].why == "not obtained: oak_planks, crafting_table, stick, wooden_pickaxe"


async def test_another_wood_counts_for_a_target_of_no_wood(task):
    text = (
        "STEP 1: a - Minecraft items: 2x Birch Log\nSTEP 2: b - Minecraft items: 4x Birch Planks\n"
        "STEP 3: c - Item: 1x Chest"
    )
    assert (await scored(task, "chest", text))["partial progress"].value == pytest.approx(2 / 4)
    assert (await scored(task, "acacia_boat", text))["partial progress"].value == 0.0


async def test_the_target_made_before_a_later_failure_is_full_progress_but_not_executable(task):
    good = example_of(task, "stick").golden_answers[0]
    scores = await scored(task, "stick", good + "\nSTEP 9: x - Minecraft items: 1x Diamond")
    assert (scores["executability"].value, scores["partial progress"].value) == (0.0, 1.0)


async def test_citation_markers_and_prose_do_not_stand_in_the_way(task):
    text = (
        "**STEP 1: Gather wood [1]**\n- **Minecraft items:** 1x Oak Log [1]\n\n"
        "STEP 2: Open the inventory.\n\nSTEP 3: Craft 4 oak planks from the log [2]. (4x Oak Planks)\n\n"
        "**STEP 4: Craft sticks**\n- Minecraft Items: 4x Sticks [2][3].\n\nThat is it!"
    )
    assert (await scored(task, "stick", text))["executability"].value == 1.0


async def test_no_plan_scores_nothing_and_no_answer_is_unscored(task):
    scores = await scored(task, "stick", "I cannot help with that.")
    assert [score.value for score in scores.values()] == [0.0, 0.0]
    assert "names no Minecraft item" in scores["executability"].why
    scores = await scored(task, "stick", None)
    assert [score.value for score in scores.values()] == [None, None]


def test_demonstrations_are_no_targets(tmp_path):
    task = MinecraftTask(need_data("minecraft").parent)
    shown = task.demonstrations()
    assert len(shown) == len(DEMONSTRATED) == 2
    targets = {item for items in TARGETS.values() for item in items}
    assert not targets & set(DEMONSTRATED)
    assert not {demonstration.question for demonstration in shown} & {example.question for example in task.examples()}
    assert shown[0].reasoning.startswith("Ladder takes, from first to last, oak log")


@pytest.mark.parametrize("version", ["1.16.5", "1.19"])
def test_the_real_recipes_make_every_target_reachable(version):
    task = MinecraftTask(need_data("minecraft").parent, version=version)
    examples = task.examples()
    assert len(examples) == len({example.id for example in examples}) == sum(map(len, TARGETS.values()))
    assert len(examples) >= 100
    assert min(example.metadata["difficulty"] for example in examples) <= 2
    assert max(example.metadata["difficulty"] for example in examples) >= 15
    assert len(task.solutions()) == len(examples)


def test_the_corpus_is_written_on_demand(task, tmp_path, monkeypatch):
    monkeypatch.setenv("REGROUND_HOME", str(tmp_path))
    path = task.corpus
    assert path == tmp_path / "cache" / "minecraft-1.16.5.jsonl"
    assert set(json.loads(path.read_text(encoding="utf-8").splitlines()[0])) == {"id", "title", "text"}
    assert task.corpus.is_file()


def test_absent_and_useless_recipes_are_data_errors(tmp_path):
    with pytest.raises(DataError, match="recipes_1"):
        TASKS["minecraft"](tmp_path)
    (tmp_path / "minecraft").mkdir()
    line = json.dumps({"result": "x", "count": 1, "ingredients": {"y": 1}})
    (tmp_path / "minecraft" / "recipes_1.16.5.jsonl").write_text(line)
    (tmp_path / "minecraft" / "items_1.16.5.jsonl").write_text('{"name": "x"}\n')
    with pytest.raises(DataError, match="none of the targets"):
        TASKS["minecraft"](tmp_path).examples()


async def test_judges_of_plausibility_read_one_step_a_line_and_need_no_reference(task):
    text = "**STEP 1:** Chop a tree.\n- Minecraft items: 1x Oak Log\n\nSTEP 2: Craft.\n- Minecraft items: 4x Oak Planks"
    shown = "STEP 1: Chop a tree. - Minecraft items: 1x Oak Log\nSTEP 2: Craft. - Minecraft items: 4x Oak Planks"
    assert as_read(task, text) == shown
    judge = Judge(model=ScriptedModel(["# it stops too early\nmark = 2"]))

    judged = JudgedTask(task=task, judge=judge, journal=MemoryJournal)
    assert judged.form is task.form
    trajectory = Trajectory(id="x", question="q", method="m", answer=Answer(text=text))
    scores = await judged.score(example_of(task, "stick"), trajectory, None)
    assert scores["auto-eval"].value == 0.25
    (prompt,) = judge.model.prompts
    assert repr(shown) in prompt
    assert "a player could follow it step by step" in prompt
    assert example_of(task, "stick").golden_answers[0] not in prompt


@pytest.fixture(scope="module")
def articles(tmp_path_factory):
    folder = tmp_path_factory.mktemp("corpus")
    out = folder / "deep" / "corpus.jsonl"
    number = write_corpus(write_recipes(folder), out)
    found = {article["id"]: article for article in map(json.loads, out.read_text(encoding="utf-8").splitlines())}
    assert number == len(found)
    assert list(out.parent.iterdir()) == [out]
    return found


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ("stick", "Recipe for 4 stick: 2 oak planks or birch planks or acacia planks, crafted in the 2x2 grid"),
        ("chest", "8 oak planks or birch planks or acacia planks, crafted at a crafting table"),
        ("cobblestone", "mine stone. This needs a wooden pickaxe or a better pickaxe."),
        ("oak_log", "No tool is needed."),
        ("milk_bucket", "This needs 1 bucket."),
        ("cobweb", "This needs shears."),
        ("iron_ingot", "Smelting 1 iron ore in a furnace or a blast furnace gives 1 iron ingot."),
        ("iron_ingot", "Iron Ingot is used to make"),
        ("ice", "cannot be obtained in survival mode"),
        ("tools", "Gathering diamond, redstone"),
    ],
)
def test_an_article_says_how_an_item_is_had(articles, item, told):
    assert told in articles[item]["text"]


def test_nine_woods_become_any_kind(tmp_path):
    out = tmp_path / "corpus.jsonl"
    assert write_corpus(need_data("minecraft").parent, out, version="1.19") > 900
    found = {
        article["id"]: article["text"] for article in map(json.loads, out.read_text(encoding="utf-8").splitlines())
    }
    assert "4 planks of any kind (such as oak planks)" in found["crafting_table"]
    assert (
        "A smithing table upgrades 1 diamond sword and 1 netherite ingot to 1 netherite sword."
        in found["netherite_sword"]
    )
    assert max(map(len, found.values())) < 4000
