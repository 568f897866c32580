import re

import pytest

from reground.core.answers import ARTICLE, CHOICE, NUMBER, PAL, PHRASE, PLAN, PROGRAM, TEXT
from reground.core.budget import Budget
from reground.core.evidence import Passage
from reground.core.language import Reply, Usage
from reground.core.run import Run, solve
from reground.evaluation.scaling import scaled
from reground.methods.rar import RaR
from reground.methods.shared.steps import split_draft
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, Failing, by_job, effects, notes, prompts, queries

MANY = [Passage(id=str(i), title=f"River {i}", text=f"A river meets number {i}.") for i in range(9)]
QUESTION = "Which is longer, the river of Vienna or that of Cologne?"
THOUGHTS = ["Vienna lies on the Seine.", "The Danube has 2000 km.", "The Rhine of Cologne has 900 km."]
RAW = "Answer: the Seine"
DRAFT = "\n\n".join([*THOUGHTS, RAW])
REFINED = ["Vienna lies on the Danube [1].", "The Danube has 2850 km [1].", "The Rhine has 1230 km.\n\nAnswer: Danube"]
WHOLE = "\n\n".join(REFINED)
DRAFT_JOB, QUERY, REFLECT = "Think step by step", "Write only the query", "Find the errors in the"
STEP, LAST, OVERALL = (
    "Write this one step and nothing else",
    "end with the final answer that follows",
    "Write the whole answer again",
)


def model(**jobs):
    return by_job(
        {
            OVERALL: jobs.get("overall", WHOLE),
            STEP: jobs.get("step", REFINED[:2]),
            LAST: jobs.get("last", REFINED[2]),
            REFLECT: jobs.get("reflect", "It is the Danube [1]."),
            QUERY: jobs.get("query", ["vienna danube", "danube km", "rhine km", "danube rhine"]),
            DRAFT_JOB: jobs.get("draft", DRAFT),
        }
    )


def rar(scripted=None, retriever=None, form=PHRASE, **settings):
    return RaR(model=scripted or model(), retriever=retriever or ScriptedRetriever(PASSAGES), form=form, **settings)


def whole(number: int) -> str:
    """A whole answer that differs from the others."""
    return WHOLE.replace("1230", str(number))


def searches(count: int = 3) -> list[tuple[str, str]]:
    return [(f"/step.{i}", name) for i in range(count) for name in ("query", "retrieve")]


def cycles(count: int = 3) -> list[tuple[str, str]]:
    return [(f"/step.{i}", name) for i in range(count) for name in ("reflect", "refine")]


def overall(count: int) -> list[tuple[str, str]]:
    return [(f"/round.{i}", name) for i in range(count) for name in ("query", "retrieve", "reflect", "refine")]


async def test_draft_all_queries_then_reflect_and_refine_each_step_then_the_whole():
    run = Run()
    answer = await rar().solve(QUESTION, run)
    found = effects(run)
    assert found[0] == ("", "draft")
    assert sorted(found[1:7]) == sorted(searches())
    assert found[7:13] == cycles()
    assert found[13:21] == overall(2)
    assert found[21:] == [("", "converged")]
    assert answer.text == WHOLE
    assert run.best == answer


async def test_parallel_queries_see_the_raw_thoughts_up_to_their_step_only():
    run = Run()
    await rar(max_rounds=0).solve(QUESTION, run)
    for i, prompt in enumerate(prompts(run, "query")):
        before = "\n\n".join(THOUGHTS[:i]) or "(none)"
        assert f"before:\n{before}\n\nText:\n{THOUGHTS[i]}\n" in prompt
        assert all(later not in prompt for later in [*THOUGHTS[i + 1 :], RAW])
        assert "[1]" not in prompt


async def test_a_marker_that_the_draft_or_a_step_made_up_becomes_no_citation_of_what_is_found_later():
    draft = "The Danube is long [2].\n\nThe Rhine is not [1]."
    answer = await rar(model(draft=draft, step="NO CHANGE", overall=""), form=TEXT).solve(QUESTION, Run())
    assert (answer.text, answer.citations) == ("The Danube is long.\n\nThe Rhine is not.", ())
    steps = ["The Danube is long [1][3].", "The Rhine is not [1][2][3]."]
    scripted = model(draft=draft, step=steps, overall="")
    answer = await rar(scripted, form=TEXT, k=1).solve(QUESTION, Run())
    assert answer.text == "The Danube is long [1].\n\nThe Rhine is not [1]."


async def test_sequential_queries_see_what_is_refined_and_the_raw_step():
    run = Run()
    await rar(queries="sequential", max_rounds=0).solve(QUESTION, run)
    order = [(f"/step.{i}", name) for i in range(3) for name in ("query", "retrieve", "reflect", "refine")]
    assert effects(run) == [("", "draft"), *order]
    _, second, third = prompts(run, "query")
    assert f"{REFINED[0]}\n\nText:\n{THOUGHTS[1]}" in second
    assert THOUGHTS[0] not in second
    assert f"{REFINED[1]}\n\nText:\n{THOUGHTS[2]}" in third
    assert RAW not in third


async def test_reflection_and_refinement_see_refined_steps_evidence_and_the_step_but_nothing_later():
    run = Run()
    answer = await rar(model(reflect=["first flaw", "second flaw", "third flaw"]), max_rounds=0).solve(QUESTION, run)
    first, second, _ = prompts(run, "reflect")
    assert "Checked so far:\n(none)" in first
    assert all(absent not in second for absent in (THOUGHTS[0], THOUGHTS[2], RAW))
    assert second.count("<passage number") == 1
    assert second.index(QUESTION) < second.index(REFINED[0]) < second.index("<passage n") < second.index(THOUGHTS[1])
    refinements = prompts(run, "refine")
    assert all(f"{nth} flaw" in each for nth, each in zip(("first", "second", "third"), refinements, strict=True))
    assert [RAW in each for each in refinements] == [False, False, True], "only the last step sees the raw answer"
    assert refinements[2].endswith(PHRASE.instruction)
    step = answer.steps[0]
    assert (step.text, step.draft, step.reflection) == (REFINED[0], THOUGHTS[0], "first flaw")
    assert (step.query, step.citations) == ("vienna danube", (1,))
    assert {c.passage_id for c in answer.shown} == {"danube", "rhine"}


async def test_a_bare_ok_is_no_error_for_the_refinement_and_stays_in_the_record():
    run = Run()
    answer = await rar(model(reflect="OK."), max_rounds=1).solve(QUESTION, run)
    assert [step.reflection for step in answer.steps] == ["OK."] * 3
    assert all("below:\nnone\n\n" in prompt for prompt in prompts(run, "refine"))


@pytest.mark.parametrize("reply", ["", Reply(text="Vienna lies", finish_reason="length")])
async def test_only_real_generations_count_towards_convergence(reply):
    run = Run()
    said = [WHOLE, reply, whole(1), reply, whole(1)]
    await rar(model(overall=said), max_rounds=9, max_contents=None).solve(QUESTION, run)
    assert len([1 for span, name in effects(run) if span.startswith("/round") and name == "refine"]) == 6
    assert notes(run, "converged")[0].data == {"identical": 3}


@pytest.mark.parametrize(
    ("said", "retriever"),
    [
        ([""], None),
        ([Reply(text="Vienna", finish_reason="length")], None),
        ([WHOLE], Failing(nothing_for="danube rhine")),
    ],
)
async def test_rounds_without_a_generation_end_phase_2(said, retriever):
    run = Run()
    answer = await rar(model(overall=said), retriever, max_rounds=99, max_contents=None).solve(QUESTION, run)
    assert answer.text == WHOLE
    assert not notes(run, "converged")
    assert notes(run, "phase 2 ended")
    assert len({span for span, _ in effects(run) if span.startswith("/round")}) == 2


async def test_when_all_contents_are_used_rounds_read_known_passages_again():
    run = Run()
    scripted = model(overall=[whole(i) for i in range(9)])
    await rar(scripted, ScriptedRetriever([*PASSAGES, *MANY]), max_rounds=9).solve(QUESTION, run)
    shown = {number for prompt in scripted.prompts for number in re.findall('<passage number="([0-9]+)"', prompt)}
    assert len(shown) == 5
    assert len({span for span, _ in effects(run) if span.startswith("/round")}) == 9


RIVERS = [("Seine", "Paris", 775), ("Danube", "Vienna", 2850), ("Rhine", "Cologne", 1230), ("Thames", "London", 346)]
PUT_TOGETHER = [f"The {name} flows through {town} and is {km} km long." for name, town, km in RIVERS]


async def test_steps_that_a_refinement_of_several_drops_are_put_back_and_noted():
    first, second, third, fourth = PUT_TOGETHER
    refined = [first.replace("775", "777"), third.replace("1230", "1233")]
    run = Run()
    draft, last = "\n\n".join([*PUT_TOGETHER, RAW]), f"{refined[1]}\n\nAnswer: Danube"
    scripted = model(draft=draft, step=refined[:1], last=last, reflect="OK")
    answer = await rar(scripted, max_steps=2, max_rounds=0).solve(QUESTION, run)
    assert answer.text == "\n\n".join([refined[0], second, refined[1], fourth, "Answer: Danube"])
    assert [note.data["steps"] for note in notes(run, "step dropped")] == [[second], [fourth]]
    assert [note.span for note in notes(run, "step dropped")] == ["/step.0", "/step.1"]


async def test_an_ending_that_was_the_answer_is_no_lost_step_where_the_refinement_states_one():
    run = Run()
    scripted = model(
        draft="The Rhine of Cologne has 900 km.\n\nSo Zambezi wins.", last="The Rhine has 1230 km.\n\nAnswer: Danube"
    )
    answer = await rar(scripted, max_rounds=0).solve(QUESTION, run)
    assert answer.text == "The Rhine has 1230 km.\n\nAnswer: Danube"
    assert not notes(run, "step dropped")


async def test_non_causal_retrieves_for_all_raw_steps_and_refines_the_whole_draft_once():
    run = Run()
    answer = await rar(model(), causal=False, max_rounds=0).solve(QUESTION, run)
    found = effects(run)
    assert sorted(found[1:7]) == sorted(searches())
    assert found[7:] == [("/whole.0", "reflect"), ("/whole.0", "refine")]
    (reflect,), (refine,) = prompts(run, "reflect"), prompts(run, "refine")
    assert DRAFT in reflect and DRAFT in refine
    assert refine.count("<passage number") == len(answer.shown) == 2
    assert answer.text == WHOLE
    assert [step.text for step in answer.steps] == [*REFINED[:2], "The Rhine has 1230 km."]
    assert [step.draft for step in answer.steps] == THOUGHTS


async def test_non_causal_without_passages_or_refinement_keeps_the_draft():
    nothing = await rar(model(), Failing(nothing_for=" "), causal=False, max_rounds=0).solve(QUESTION, Run())
    empty = await rar(model(overall=""), causal=False, max_rounds=0).solve(QUESTION, Run())
    assert nothing.text == empty.text == DRAFT


async def test_phase_2_queries_the_whole_answer_and_looks_for_passages_not_seen():
    run = Run()
    await rar(model(overall=["Better.\n\nAnswer: Danube"])).solve(QUESTION, run)
    *steps, whole, better, _ = prompts(run, "query")
    assert len(steps) == 3 and all("all its sentences" in prompt for prompt in steps)
    assert f"Answer:\n{WHOLE}\n\nTask: Look at the answer as a whole" in whole and "all its sentences" not in whole
    assert "Better." in better
    first, second = prompts(run, "refine")[3:5]
    assert '<passage number="3" title="Seine">' in first
    assert '<passage number="4" title="Thames">' in second
    assert "It is the Danube [1]." in first
    assert first.endswith(PHRASE.instruction)


@pytest.mark.parametrize(("m", "expected"), [(2, 1), (3, 2), (4, 3)])
@pytest.mark.parametrize("same", [[WHOLE.replace("\n\n", "  \n\n\n"), WHOLE], "NO CHANGE", "No change."])
async def test_m_identical_generations_in_a_row_end_phase_2(same, m, expected):
    run = Run()
    await rar(model(overall=same), m=m, max_rounds=9, max_contents=None).solve(QUESTION, run)
    assert [effect for effect in effects(run)[13:-1] if effect[1] != "nothing to change"] == overall(expected)
    assert notes(run, "converged")[0].data == {"identical": m}


async def test_a_last_refinement_without_an_answer_gets_the_drafts():
    run = Run()
    answer = await rar(model(last="The Rhine has 1230 km."), max_rounds=0).solve(QUESTION, run)
    assert answer.text.endswith(f"The Rhine has 1230 km.\n\n{RAW}")
    assert notes(run, "answer missing")


@pytest.mark.parametrize(
    ("form", "ending", "answer"),
    [
        (CHOICE, "The answer is B.", "B"),
        (CHOICE, "So the final answer is **B**.", "B"),
        (CHOICE, "**B**", "B"),
        (CHOICE, "\\boxed{B}", "B"),
        (NUMBER, "Therefore the total is $\\boxed{72}$.", "72"),
        (PHRASE, "So the answer is the Danube [1].", "the Danube"),
    ],
)
async def test_a_corrected_answer_without_its_label_is_not_overruled_by_the_drafts(form, ending, answer):
    draft = "Vienna lies on the Danube.\n\nThe Danube has 2500 km.\n\nAnswer: A 5"
    run = Run()
    refined = f"The Danube has 2850 km [1].\n\n{ending}"
    found = await rar(
        model(draft=draft, last=refined, step=["Vienna lies on the Danube."]), form=form, max_rounds=0
    ).solve(QUESTION, run)
    assert form.extract(found.text) == answer
    assert not notes(run, "answer missing")


async def test_an_empty_or_cut_refinement_keeps_the_step():
    run = Run()
    cut = Reply(text="Vienna lies on", finish_reason="length")
    never = Reply(text="", finish_reason="length")
    answer = await rar(model(step=[never, never, cut], last=never), max_rounds=0).solve(QUESTION, run)
    assert answer.text == DRAFT
    assert len(notes(run, "revision empty")) == 2
    assert len(notes(run, "revision cut")) == 1
    assert answer.citations == ()


async def test_for_code_thoughts_and_answer_are_the_queries():
    draft = "Add them.\n\n```python\n# add\nc = a - b\n\n# give it back\nreturn c\n```"
    last = "Add them up.\n\n```python\nreturn a + b\n```"
    run = Run()
    answer = await rar(model(draft=draft, last=last, overall=last), form=PROGRAM).solve("Add.", run)
    assert "query" not in [name for _, name in effects(run)]
    assert queries(run)[:2] == ["# add\nc = a - b", "# add\nc = a - b\n\n# give it back\nreturn c"]
    assert "to correct:\n# add\nc = a - b\n" in prompts(run, "refine")[0]
    assert PROGRAM.extract(answer.text) == "return a + b"


async def test_a_draft_that_is_only_a_program_is_one_step_and_is_shown_once():
    draft, better = "```python\nreturn a - b\n```", "```python\nreturn a + b\n```"
    run = Run()
    answer = await rar(model(draft=draft, last=better), form=PAL, max_rounds=0).solve("Add.", run)
    (refine,) = prompts(run, "refine")
    assert refine.count("return a - b") == 1
    assert refine.endswith(PAL.instruction)
    assert answer.text == better


async def test_plans_are_their_thoughts_and_have_no_raw_answer():
    draft = "STEP 1: get 1 log\nSTEP 2: craft 4 planks"
    scripted = model(draft=draft, step=["STEP 1: get 2 logs", "STEP 2: craft 8 planks"])
    run = Run()
    answer = await rar(scripted, form=PLAN, max_rounds=0).solve("Planks.", run)
    assert PLAN.instruction in prompts(run, "draft")[0]
    assert answer.text == "STEP 1: get 2 logs\n\nSTEP 2: craft 8 planks"


@pytest.mark.parametrize(
    ("draft", "form", "thoughts", "raw"),
    [
        ("a\n\nb\n\nAnswer: c", PHRASE, ["a", "b"], "Answer: c"),
        ("a\n\nb\n\nSo it is c.", PHRASE, ["a", "b"], "So it is c."),
        ("a\n\nb\n\nSo it is c.", TEXT, ["a", "b", "So it is c."], ""),
        ("a\n\nb\n\nAnswer: c", TEXT, ["a", "b"], "Answer: c"),
        ("only this", NUMBER, ["only this"], ""),
        ("Answer: 4", NUMBER, ["Answer: 4"], ""),
        ("a\n\n```python\nx\n\ny\n```", PROGRAM, ["x", "y"], "```python\nx\n\ny\n```"),
        ("a\n\n```python\nx\n```", PROGRAM, ["```python\nx\n```"], ""),
        ("", TEXT, [], ""),
    ],
)
def test_one_reply_holds_thoughts_and_raw_answer(draft, form, thoughts, raw):
    assert split_draft(draft, form, most=5) == (thoughts, raw)


@pytest.mark.parametrize("tokens", [1200, 1500, 2000, 3000])
async def test_at_a_small_budget_passages_are_cut_so_that_one_cycle_fits(tokens):
    """Counted at four bytes a token, as servers with large vocabularies do."""
    long = "word " * 2000
    retriever = ScriptedRetriever([PASSAGES[0].model_copy(update={"text": long, "id": str(i)}) for i in range(9)])

    def reply(messages, sampling):
        said = DRAFT if DRAFT_JOB in messages[-1].content else "The Danube has 2850 km [1].\n\nAnswer: Danube"
        usage = Usage(calls=1, prompt=sum(len(m.content) for m in messages) // 4, completion=len(said) // 4)
        return Reply(text=said, usage=usage)

    class Counting:
        name = "counting"

        async def generate(self, messages, sampling, /):
            return [reply(messages, sampling)]

    method = scaled(rar(Counting(), retriever=retriever, max_tokens=192), tokens)
    run = Run(budget=Budget(tokens=tokens))
    await solve(method, QUESTION, run, id="q", name="rar")
    assert "refine" in [name for _, name in effects(run)]
    assert run.usage.tokens <= tokens


PARTS = ["## The Danube\nVienna lies on the Danube.", "## The Rhine\nCologne lies on the Rhine, of 900 km."]
MENDED = [PARTS[0], "## The Rhine\nCologne lies on the Rhine, of 1230 km [2]."]
WRITTEN = "# Two rivers\n\n## The Danube\nIt flows through Vienna.\n\n## The Rhine\nIt has 1230 km [2]."


async def test_a_long_text_is_its_thoughts_and_phase_2_writes_it_whole_in_its_form():
    """This paper names no call that writes the text; Eq. 6 generates the whole answer again in every round."""
    run = Run()
    writer = model(
        overall=WRITTEN, step=MENDED, reflect="The length is wrong [2].", query=["danube", "rhine", "rivers"],
        draft="\n\n".join(PARTS),
    )  # fmt: skip
    answer = await rar(writer, form=ARTICLE, max_rounds=1).solve(QUESTION, run)
    assert sorted(effects(run)[1:5]) == sorted(searches(2))
    rest = [*cycles(2), *overall(1), ("", "phase 2 ended")]
    assert [effects(run)[0], *effects(run)[5:]] == [("", "draft"), *rest]
    (draft,), (last,) = prompts(run, "draft"), prompts(run, "refine")[2:]
    assert ARTICLE.instruction in draft
    assert last.endswith(ARTICLE.instruction)
    assert answer.text == WRITTEN
