"""What a reviser deletes or rewrites stays so; what it loses by accident comes back."""

from __future__ import annotations

from functools import partial

import pytest

from reground.core.answers import PLAN, TEXT, Answer
from reground.core.language import Reply
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Task
from reground_minecraft.task import TASKS
from tests.data import need_data
from tests.methods.reviser import Lines, answered, lines_of, rar, rat, reviser, self_refine

IMPOSSIBLE = "Mine diamonds with bare hands. - Minecraft items: 3x Diamond"
INVENTED = "She shared the Nobel Prize in Physics with Marie Curie in 1903."
ADA = ["Ada Lovelace was born in London in 1815.", INVENTED, "She wrote notes on the Analytical Engine."]
STEPS = [
    "STEP 1: Chop oak trees. - Minecraft items: 4x Oak Log",
    "STEP 2: Saw the logs into boards. - Minecraft items: 16x Oak Planks",
    "STEP 3: Build a workbench. - Minecraft items: 1x Crafting Table",
    "STEP 4: Whittle rods. - Minecraft items: 8x Stick",
    "STEP 5: Make a tool for mining. - Minecraft items: 1x Wooden Pickaxe",
    "STEP 6: Dig for rubble. - Minecraft items: 11x Cobblestone",
    "STEP 7: Put up an oven. - Minecraft items: 1x Furnace",
    "STEP 8: Replace the old tool. - Minecraft items: 1x Stone Pickaxe",
]


def deleting(fault: str, draft: str, **settings: str):
    """A model that finds each line with the fault and deletes it."""

    def judge(lines: Lines) -> str:
        return f"Delete this, it is impossible: {fault}" if any(fault in line for line in lines) else "OK"

    return reviser(draft, lambda lines: "\n\n".join(line for line in lines if fault not in line), judge, **settings)


@pytest.fixture(scope="module")
def minecraft() -> Task:
    return TASKS["minecraft_zero_shot"](need_data("minecraft").parent)


def spoilt(plan: str) -> str:
    """The plan with new numbers and an impossible step in its middle."""
    steps = [line.partition(": ")[2] for line in plan.splitlines()]
    steps.insert(len(steps) // 2, IMPOSSIBLE)
    return "\n".join(f"STEP {number}: {step}" for number, step in enumerate(steps, start=1))


async def executable(task: Task, example: Example, text: str) -> bool:
    trajectory = Trajectory(id="x", question=example.question, method="m", answer=Answer(text=text))
    scores = await task.score(example, trajectory, None)
    return scores["executability"].value == 1.0


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(self_refine, id="self_refine"),
        pytest.param(rat, id="rat"),
        pytest.param(partial(rat, max_contents=None), id="rat-unlimited"),
        pytest.param(partial(rat, causal=False), id="rat-non-causal"),
        pytest.param(rar, id="rar"),
        pytest.param(partial(rar, causal=False), id="rar-non-causal"),
    ],
)
async def test_fifty_plans_lose_the_impossible_step_that_is_deleted(method, minecraft):
    targets = minecraft.examples()[::3][:50]
    assert len(targets) == 50
    failed = []
    for example in targets:
        draft = spoilt(example.golden_answers[0])
        assert not await executable(minecraft, example, draft)
        text = await answered(method(deleting("bare hands", draft), minecraft.form), example.question)
        if not await executable(minecraft, example, text):
            failed.append(example.id)
    assert not failed


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(self_refine, id="self_refine"),
        pytest.param(rat, id="rat"),
        pytest.param(partial(rat, causal=False), id="rat-non-causal"),
        pytest.param(rar, id="rar"),
        pytest.param(partial(rar, queries="sequential"), id="rar-sequential"),
        pytest.param(partial(rar, max_rounds=0), id="rar-phase-1"),
        pytest.param(partial(rar, max_steps=0), id="rar-phase-2"),
        pytest.param(partial(rar, causal=False), id="rar-non-causal"),
    ],
)
@pytest.mark.parametrize("place", range(3))
async def test_a_sentence_that_is_deleted_stays_deleted(method, place):
    kept = [ADA[0], ADA[2]]
    draft = "\n\n".join([*kept[:place], INVENTED, *kept[place:]])
    text = await answered(method(deleting("Nobel Prize", draft)), "Who was Ada Lovelace?")
    assert lines_of(text) == kept


@pytest.mark.parametrize("method", [self_refine, rat, partial(rat, causal=False), rar, partial(rar, causal=False)])
@pytest.mark.parametrize(("form", "draft"), [(TEXT, "\n\n".join(ADA)), (PLAN, "\n".join(STEPS))])
async def test_a_revision_cut_by_its_length_leaves_the_text_before(method, form, draft):
    def cut(lines: Lines) -> Reply:
        return Reply(text="\n".join(lines)[:30], finish_reason="length")

    text = await answered(method(reviser(draft, cut, "The first line is wrong."), form), "What is it?")
    assert lines_of(text) == lines_of(draft)


@pytest.mark.parametrize("last", [["STEP 8"], ["STEP 7", "STEP 8"], ["STEP 1", "STEP 8"]])
async def test_steps_of_earlier_rounds_that_rat_loses_come_back(last):
    """The last round has all eight steps before it and writes but a few of them."""

    def forget(lines: Lines) -> str:
        few = [line for line in lines if len(lines) < len(STEPS) or line.startswith(tuple(last))]
        return "\n".join(few)

    model = reviser("\n".join(STEPS), forget, "OK")
    assert lines_of(await answered(rat(model, PLAN, max_contents=None), "How?")) == STEPS


@pytest.mark.parametrize("settings", [{"max_steps": 2}, {"max_steps": 3, "max_rounds": 0}, {"max_steps": 0}])
async def test_a_text_without_errors_that_rar_cuts_to_its_first_line_stays_whole(settings):
    model = reviser("\n".join(STEPS), lambda lines: lines[0], "OK")
    assert lines_of(await answered(rar(model, PLAN, **settings), "How?")) == STEPS


CURIE = ["玛丽·居里于1867年出生在克拉科夫。", "她在1903年获得诺贝尔化学奖。", "她在1911年获得诺贝尔文学奖。"]
CURIE_CORRECTED = ["玛丽·居里于1867年出生在华沙。她在1903年获得诺贝尔物理学奖。", "她在1911年获得诺贝尔化学奖。"]
FUJI = [
    "富士山の高さは3500メートルです。",
    "富士山は静岡県と長野県にまたがる活火山です。",
    "2013年に自然遺産として世界遺産に登録されました。",
]
FUJI_CORRECTED = [
    "富士山の高さは3776メートルです。富士山は静岡県と山梨県にまたがる活火山です。",
    "2013年に文化遺産として世界遺産に登録されました。",
]


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(self_refine, id="self_refine"),
        pytest.param(partial(rat, causal=False), id="rat-non-causal"),
        pytest.param(partial(rar, max_steps=0, max_rounds=1), id="rar"),
    ],
)
@pytest.mark.parametrize(
    ("wrong", "right"), [pytest.param(CURIE, CURIE_CORRECTED, id="zh"), pytest.param(FUJI, FUJI_CORRECTED, id="ja")]
)
async def test_statements_without_spaces_that_are_corrected_and_joined_do_not_come_back(method, wrong, right):
    model = reviser("\n\n".join(wrong), lambda _: "\n\n".join(right), "错。")
    assert lines_of(await answered(method(model), "?")) == right
