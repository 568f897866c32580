"""A reply about the text does not take the text's place, and a text that is short or about texts is no remark."""

from __future__ import annotations

from functools import partial

import pytest

from reground.core.answers import PLAN, TEXT
from tests.methods.reviser import answered, lines_of, rar, rat, reviser, self_refine

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
STEPS = [
    "STEP 1: Chop oak trees. - Minecraft items: 4x Oak Log",
    "STEP 2: Saw the logs into boards. - Minecraft items: 12x Oak Planks",
    "STEP 3: Build a workbench. - Minecraft items: 1x Crafting Table",
    "STEP 4: Whittle rods. - Minecraft items: 4x Stick",
    "STEP 5: Make a tool for mining. - Minecraft items: 1x Wooden Pickaxe",
    "STEP 6: Dig for rubble. - Minecraft items: 3x Cobblestone",
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
