"""What a reviser deletes or rewrites stays so, what it loses by accident comes back, and a remark is no revision.

The scripted model drafts, criticises and revises by rules, whatever the words of a method's prompts are.
"""

from collections.abc import Callable, Sequence
from functools import partial

import pytest

from reground.core.answers import PLAN, TEXT, Answer, AnswerForm
from reground.core.evidence import Passage
from reground.core.language import Message, Reply, Sampling
from reground.core.run import Run
from reground.core.trajectory import Trajectory
from reground.evaluation.task import Example, Task
from reground.methods.rar import RaR
from reground.methods.rat import RAT
from reground.methods.self_refine import SelfRefine
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever
from reground_minecraft.task import TASKS
from tests.data import need_data

WRITING, JUDGING, ASKING = 1000, 200, 50
"""The token limits of the methods built here; by them the model knows what a call is for."""
BESIDE_THE_POINT = [Passage(id="tide", title="Tide", text="The tide comes in twice a day.")]

Lines = list[str]
Revise = Callable[[Lines], str | Reply]
"""What the model writes for the lines under revision."""


def reviser(draft: str, revise: Revise, judge: Callable[[Lines], str] | str, query: str = "tide") -> ScriptedModel:
    """A model that begins with the draft. judge: its criticism of the lines at hand. query: all its queries."""
    own: set[str] = set()

    def reply(messages: Sequence[Message], sampling: Sampling) -> str | Reply:
        if sampling.max_tokens == ASKING:
            return query
        lines = at_hand(messages, own)
        if sampling.max_tokens == JUDGING:
            return judge if isinstance(judge, str) else judge(lines)
        written = revise(lines) if own else draft
        own.update(lines_of(written if isinstance(written, str) else written.text))
        return written

    return ScriptedModel(reply)


def at_hand(messages: Sequence[Message], own: set[str]) -> Lines:
    """The lines that a call is about: the last run of the model's own lines in the last message that has any."""
    for message in reversed(messages):
        lines = lines_of(message.content)
        ends = [i for i, line in enumerate(lines, start=1) if line in own]
        if ends:
            start = end = ends[-1]
            while start > 0 and lines[start - 1] in own:
                start -= 1
            return lines[start:end]
    return []


def rat(model: ScriptedModel, form: AnswerForm = TEXT, **settings: object) -> RAT:
    limits = {"max_tokens": WRITING, "query_tokens": ASKING}
    return RAT(model=model, retriever=ScriptedRetriever(BESIDE_THE_POINT), form=form, **limits, **settings)


def rar(model: ScriptedModel, form: AnswerForm = TEXT, **settings: object) -> RaR:
    limits = {"max_tokens": WRITING, "reflection_tokens": JUDGING, "query_tokens": ASKING}
    return RaR(model=model, retriever=ScriptedRetriever(BESIDE_THE_POINT), form=form, **limits, **settings)


def self_refine(model: ScriptedModel, form: AnswerForm = TEXT, **settings: object) -> SelfRefine:
    return SelfRefine(model=model, form=form, max_tokens=WRITING, feedback_tokens=JUDGING, **settings)


async def answered(method: RAT | RaR | SelfRefine, question: str) -> str:
    """The text of a method's answer."""
    return (await method.solve(question, Run())).text


def lines_of(text: str) -> Lines:
    """The lines that are not blank: methods set blank lines between steps as they see fit."""
    return [line.strip() for line in text.splitlines() if line.strip()]


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


REMARKS = [
    "NO CHANGE",
    "No change.",
    "**NO CHANGE**",
    "The passages do not mention this, so the step remains as it is.",
    "The step is correct and supported by passage [1].",
    "The original answer is correct and does not need any revisions.",
    "I'm unable to find the information in the passages.",
    "Based on the passages provided, there is nothing in the text that I would have to rewrite.",
    "The text does not contain any errors. All steps are in line with the passages.",
    "无需修改。",
    "Keine Änderungen nötig.",
    "Der Text ist korrekt und wird von den Passagen gestützt.",
]
PROSE = [
    "Ada Lovelace was born in London in 1815 as the daughter of Lord Byron.",
    "She met Charles Babbage in 1833 and took an interest in his engines.",
    "In 1843 she published notes with a method for computing Bernoulli numbers.",
]
CHINESE = [
    "阿达·洛夫莱斯1815年出生在伦敦，是诗人拜伦的女儿。",
    "1833年她认识了巴贝奇，对他的机器产生了兴趣。",
    "1843年她发表了计算伯努利数的方法。",
]
GERMAN = [
    "Ada Lovelace wurde 1815 in London als Tochter von Lord Byron geboren.",
    "Im Jahr 1833 lernte sie Charles Babbage kennen und begeisterte sich für seine Maschinen.",
    "1843 veröffentlichte sie ein Verfahren zur Berechnung der Bernoulli-Zahlen.",
]
METHODS = [
    pytest.param(self_refine, id="self_refine"),
    pytest.param(rat, id="rat"),
    pytest.param(partial(rat, causal=False), id="rat-non-causal"),
    pytest.param(rar, id="rar"),
    pytest.param(partial(rar, causal=False), id="rar-non-causal"),
]


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("remark", REMARKS)
@pytest.mark.parametrize(
    ("form", "draft"),
    [pytest.param(TEXT, "\n\n".join(PROSE), id="prose"), pytest.param(PLAN, "\n".join(STEPS), id="plan")],
)
async def test_a_remark_leaves_the_text_whole(method, remark, form, draft):
    model = reviser(draft, lambda _: remark, "Something is wrong.")
    assert lines_of(await answered(method(model, form), "How did it come about?")) == lines_of(draft)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("remark", "draft"),
    [
        ("无需修改。", CHINESE),
        ("这一步是正确的，与资料一致。", CHINESE),
        ("Keine Änderungen nötig.", GERMAN),
        ("Der Text ist korrekt und wird von den Passagen gestützt.", GERMAN),
    ],
)
async def test_a_remark_in_the_language_of_the_text_leaves_it_whole(method, remark, draft):
    model = reviser("\n\n".join(draft), lambda _: remark, "?")
    assert lines_of(await answered(method(model), "?")) == draft


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("place", range(len(PROSE)))
async def test_a_remark_on_one_paragraph_leaves_the_corrections_of_the_others(method, place):
    """Where a call is about that paragraph alone, or ends with it, the model writes a remark."""

    def revise(lines: list[str]) -> str:
        if lines[-1] == PROSE[place] and len(lines) < len(PROSE):
            return "The passages do not mention this, so the text remains as it is."
        return "\n\n".join(line.replace("18", "19") for line in lines)

    text = await answered(method(reviser("\n\n".join(PROSE), revise, "The century is wrong.")), "Who was she?")
    assert [line.replace("19", "18") for line in lines_of(text)] == PROSE


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize(
    ("wrong", "right"),
    [
        ("Lyon is the capital of France.", "Paris is the capital of France [1]."),
        ("The original plan is bad.", "The original plan is good."),
        ("There are 3 edits.", "There are no edits"),
        ("The text was written by Max Brod.", "The text was written by Franz Kafka, so the answer is yes."),
        ("The first step of the plan is wrong: it needs no logs.", "The first step of the plan is correct [1]."),
        ("In the passage the narrator finds an error.", "In the passage the narrator finds no error in the text."),
        ("里昂是法国的首都。", "巴黎是法国的首都[1]。"),
        ("Der Text stammt von Max Brod.", "Der Text stammt von Franz Kafka."),
    ],
)
async def test_a_short_correction_passes_also_where_it_is_about_a_text(method, wrong, right):
    model = reviser(wrong, lambda _: right, "It is wrong.")
    text = await answered(method(model), "What is said?")
    assert text.replace(" [1]", "").replace("[1]", "") == right.replace(" [1]", "").replace("[1]", "")


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("saying", ["The original plan is good.", "There are no edits", "No change."])
async def test_a_step_that_sounds_like_a_remark_is_not_lost(method, saying):
    draft = [PROSE[0], saying, PROSE[2]]

    def revise(lines: list[str]) -> str:
        return "\n\n".join(line.replace("18", "19") for line in lines)

    text = await answered(method(reviser("\n\n".join(draft), revise, "The century is wrong.")), "Who was she?")
    assert saying in lines_of(text)
    assert len(lines_of(text)) == len(draft)
