import pytest

from reground.core.answers import ARTICLE, PHRASE, PLAN, PROGRAM, TEXT
from reground.core.budget import Budget
from reground.core.evidence import Passage
from reground.core.language import Reply
from reground.core.run import Run, solve
from reground.evaluation import scaling
from reground.methods.rat import RAT
from reground.retrieval.scripted import ScriptedRetriever
from tests.methods.helpers import PASSAGES, Failing, Paid, by_job, effects, notes, prompts, queries

QUESTION = "Which is longer, the river of Vienna or that of Cologne?"
DRAFT = "Vienna lies on the Danube.\n\nThe Danube has 2000 km.\n\nThe Rhine of Cologne has 900 km."
DRAFT_JOB, QUERY, REVISE, ANSWER = "Think step by step", "Write only the query", "revised text only", "final answer"
REVISIONS = [
    "Vienna lies on the Danube river.",
    "Vienna lies on the Danube river.\n\nThe Danube has 2850 km [1].",
    "Vienna lies on the Danube river.\n\nThe Danube has 2850 km [1].\n\nThe Rhine of Cologne has 1230 km [2].",
]


def model(**jobs):
    return by_job(
        {
            REVISE: jobs.get("revise", REVISIONS),
            QUERY: jobs.get("query", ["vienna danube", "danube km", "rhine km"]),
            ANSWER: jobs.get("answer", "Answer: the Danube"),
            DRAFT_JOB: jobs.get("draft", DRAFT),
        }
    )


def rat(scripted=None, retriever=None, **settings):
    return RAT(model=scripted or model(), retriever=retriever or ScriptedRetriever(PASSAGES), **settings)


def rounds(*names: str, count: int = 3) -> list[tuple[str, str]]:
    return [(f"/step.{i}", name) for i in range(count) for name in names]


async def test_algorithm_1_draft_then_query_retrieve_revise_for_each_step():
    run = Run()
    answer = await rat().solve(QUESTION, run)
    assert effects(run) == [("", "draft"), *rounds("query", "retrieve", "revise")]
    assert answer.text == REVISIONS[-1]
    assert run.best == answer
    assert [(c.marker, c.passage_id) for c in answer.citations] == [(1, "danube"), (2, "rhine")]
    # query i sees the revised steps before and step i, and never a future step
    first, second, third = prompts(run, "query")
    assert "Vienna lies on the Danube." in first and "2000 km" not in first and "900 km" not in first
    assert "before:\nVienna lies on the Danube river.\n\nText:\nThe Danube has 2000 km.\n" in second
    assert "900 km" not in second
    assert "The Danube has 2850 km [1].\n\nText:\nThe Rhine of Cologne has 900 km.\n" in third
    assert all(QUESTION in prompt and "<passage" not in prompt for prompt in (first, second, third))
    # a revision sees the question, the text so far and the passages of its query, the text last
    assert queries(run) == ["vienna danube", "danube km", "rhine km"]
    revise = prompts(run, "revise")[1]
    assert '<passage number="1" title="Danube">' in revise and "Rhine" not in revise
    text = "Vienna lies on the Danube river.\n\nThe Danube has 2000 km."
    assert revise.index(QUESTION) < revise.index("<passage ") < revise.index(text)


async def test_a_marker_that_a_revision_made_up_is_taken_out_before_a_later_passage_gets_its_number():
    revise = [
        "Vienna lies on the Danube river [2].",
        "Vienna lies on the Danube river.\n\nThe Danube has 2850 km [1][7].",
    ]
    run = Run()
    answer = await rat(model(draft="Vienna [4].\n\nThe Danube has 2000 km.", revise=revise)).solve(QUESTION, run)
    assert [step.draft for step in answer.steps] == ["Vienna.", "The Danube has 2000 km."]
    assert "river." in prompts(run, "revise")[1]
    assert answer.text == "Vienna lies on the Danube river.\n\nThe Danube has 2850 km [1]."
    assert [note.data["markers"] for note in notes(run, "unknown markers removed")] == [[4], [2], [7]]


async def test_a_form_with_a_final_pass_has_the_answer_written_from_the_revised_thoughts():
    run = Run()
    answer = await rat(form=PHRASE).solve(QUESTION, run)
    assert effects(run)[-1] == ("", "answer")
    (final,) = prompts(run, "answer")
    assert REVISIONS[-1] in final and "900 km" not in final and final.endswith(PHRASE.short)
    assert answer.text == "Answer: the Danube"
    assert answer.citations == (), "a bare answer cites nothing"
    assert [c.passage_id for c in answer.shown] == ["danube", "rhine"]
    assert [thought.text for thought in answer.steps] == REVISIONS[-1].split("\n\n")
    assert [thought.citations for thought in answer.steps] == [(), (1,), (2,)]


async def test_for_code_the_draft_is_the_query_and_the_program_comes_from_the_revised_thoughts():
    draft = "# add\nx = a + b\n\n# give it back\nreturn x"
    scripted = model(draft=draft, revise=lambda prompt: draft, answer="```python\nreturn a + b\n```")
    run = Run()
    answer = await rat(scripted, form=PROGRAM).solve("Add.", run)
    assert effects(run) == [("", "draft"), *rounds("retrieve", "revise", count=2), ("", "answer")]
    assert queries(run)[0] == "# add\nx = a + b"
    assert PROGRAM.extract(answer.text) == "return a + b"
    assert "Python" in prompts(run, "draft")[0]


async def test_plans_are_their_thoughts_and_the_draft_is_told_the_form():
    run = Run()
    await rat(form=PLAN).solve(QUESTION, run)
    assert PLAN.instruction in prompts(run, "draft")[0]
    assert ("", "answer") not in effects(run)


async def test_the_retrievals_are_bounded_and_no_step_stays_unchecked():
    draft = "\n\n".join(f"Step number {i} says something." for i in range(12))
    run = Run()
    answer = await rat(model(draft=draft, query="q", revise="NO CHANGE"), k=2, max_contents=6).solve(QUESTION, run)
    assert len(queries(run)) == 3
    assert all(f"Step number {i} " in answer.text for i in range(12))
    unbounded = Run()
    await rat(model(draft=draft, query="q", revise=""), max_contents=None).solve(QUESTION, unbounded)
    assert len(queries(unbounded)) == 12


async def test_passes_each_revises_with_one_passage_at_a_time():
    run = Run()
    await rat(model(revise=DRAFT), k=2, max_contents=2, passes="each").solve(QUESTION, run)
    assert [name for _, name in effects(run)] == ["draft", "query", "retrieve", "revise", "revise"]
    assert [prompt.count("<passage number") for prompt in prompts(run, "revise")] == [1, 1]


async def test_query_from_the_question_asks_no_model():
    run = Run()
    await rat(model(revise=DRAFT), query_from="question").solve(QUESTION, run)
    assert effects(run) == [("", "draft"), *rounds("retrieve", "revise")]
    assert queries(run) == [QUESTION] * 3


async def test_non_causal_retrieves_for_all_raw_steps_and_revises_once():
    run = Run()
    answer = await rat(model(revise=REVISIONS[-1]), causal=False, form=PHRASE).solve(QUESTION, run)
    names = [name for _, name in effects(run)]
    assert names[0] == "draft"
    assert sorted(names[1:7]) == ["query"] * 3 + ["retrieve"] * 3
    assert names[7:] == ["revise", "answer"]
    assert all("2850" not in prompt for prompt in prompts(run, "query"))
    (revision,) = prompts(run, "revise")
    assert DRAFT in revision
    assert revision.count("<passage number") == 2
    assert answer.steps[2].query == "rhine km"


async def test_steps_that_a_revision_drops_are_put_back_and_noted():
    revise = ["Vienna lies on the Danube river.", "The Danube has 2850 km.", "The Rhine of Cologne has 1230 km."]
    run = Run()
    answer = await rat(model(revise=revise)).solve(QUESTION, run)
    assert answer.text == "\n\n".join(revise)
    assert [note.data["steps"] for note in notes(run, "step dropped")] == [
        ["Vienna lies on the Danube river."],
        ["Vienna lies on the Danube river.", "The Danube has 2850 km."],
    ]


@pytest.mark.parametrize("reply", [Reply(text=" ", finish_reason="length"), Reply(text="", reasoning="Is it?")])
async def test_a_revision_that_never_came_keeps_the_text(reply):
    run = Run()
    answer = await rat(model(revise=reply)).solve(QUESTION, run)
    assert answer.text == DRAFT
    assert len(notes(run, "revision empty")) == 3
    assert answer.shown == (), "what a discarded revision was shown is not behind the answer"


async def test_an_answer_whose_revisions_were_all_discarded_says_that_it_rests_on_no_document():
    run, fine = Run(), Run()
    await rat(model(revise=Reply(text="Vienna lies on the", finish_reason="length")), form=PHRASE).solve(QUESTION, run)
    assert [note.data["why"] for note in notes(run, "ungrounded")] == ["no revision with what was found was kept"]
    await rat().solve(QUESTION, fine)
    assert notes(fine, "ungrounded") == []


async def test_a_failed_retrieval_skips_the_round_and_says_so():
    run = Run()
    answer = await rat(model(revise=REVISIONS[1:]), Failing(on="vienna")).solve(QUESTION, run)
    assert ("/step.0", "revise") not in effects(run)
    assert notes(run, "retrieval failed")[0].data["why"] == "the index is on fire"
    assert answer.text == REVISIONS[-1].replace(" [2]", ""), "one passage is all that the rounds were shown"


STEPS = [f"The river number {i} flows through a town, and it is some {i}00 km long from its source." for i in range(6)]
LONG = [
    Passage(id=str(i), title=f"River {i}", text=f"The Danube and the Rhine meet number {i}. " * 200) for i in range(9)
]


SUM = "\n".join(f"    total += values[{i}] * {i}  # line {i}" for i in range(17))
WHOLE = f"```python\ndef solve(values):\n    total = 0\n{SUM}\n    return total\n```"
CODE_STEPS = [f"# step {i}: add the products number {i}\ntotal += values[{i}] * {i}\nprint(total)" for i in range(6)]


def length(text: str) -> int:
    return len(text) * 2 // 7


def paid(said: dict[str, str]) -> Paid:
    """A model that says what stands behind the first mark in its prompt, else repeats what it shall revise.

    It keeps to the length it is given.
    """

    def say(messages, sampling):
        prompt = messages[-1].content
        text = next((text for mark, text in said.items() if mark in prompt), None)
        text = text if text is not None else prompt.rpartition("Text:\n")[2].partition("\n\nTask:")[0]
        kept = text[: sampling.max_tokens * 7 // 2]
        return Reply(text=kept, finish_reason="stop" if kept == text else "length")

    return Paid(say)


def programmer():
    return paid({ANSWER: WHOLE, DRAFT_JOB: "\n\n".join(CODE_STEPS)})


@pytest.mark.parametrize("settings", [{}, {"causal": False}, {"passes": "each", "k": 2}, {"causal": False, "k": 3}])
@pytest.mark.parametrize("scaled", [False, True])
async def test_no_budget_cuts_the_program_that_is_the_answer(scaled, settings):
    given = {}
    for tokens in (600 + round(i * 5400 / 48) for i in range(49)):
        method = rat(programmer(), ScriptedRetriever(LONG), form=PROGRAM, **settings)
        run = Run(budget=Budget(tokens=tokens))
        solved = await solve(scaling.scaled(method, tokens) if scaled else method, QUESTION, run, id="q", name="rat")
        given[tokens] = solved.trajectory.answer.text
        assert run.usage.tokens <= tokens
        revised = any(name == "revise" for _, name in effects(run))
        assert revised or tokens < 1800, "the program is whole because nothing else is done"
    # the draft written and read, the program, two instructions
    enough = 2 * length("\n\n".join(CODE_STEPS)) + length(WHOLE) + 200
    assert {text for tokens, text in given.items() if tokens >= enough} == {WHOLE}
    assert {text for tokens, text in given.items() if tokens < enough} <= {WHOLE, "\n\n".join(CODE_STEPS)}
    assert enough < 700


async def test_a_budget_too_small_for_the_program_gives_the_whole_thoughts_before_it():
    run = Run(budget=Budget(tokens=460))
    solved = await solve(rat(programmer(), form=PROGRAM), QUESTION, run, id="q", name="rat")
    assert "answer" not in [name for _, name in effects(run)], "a program that must be cut is not asked for"
    assert solved.trajectory.answer.text == "\n\n".join(CODE_STEPS)
    assert solved.trajectory.stopped == "tokens"


@pytest.mark.parametrize("form", [TEXT, PHRASE])
@pytest.mark.parametrize("tokens", [700, 1200, 1800, 2600])
async def test_non_causal_asks_only_for_what_the_revision_and_the_answer_leave_room_for(tokens, form):
    run = Run(budget=Budget(tokens=tokens))
    traveller = paid({QUERY: "rivers", ANSWER: "Answer: Danube", DRAFT_JOB: "\n\n".join(STEPS)})
    method = rat(traveller, ScriptedRetriever(LONG), form=form, causal=False, k=2, max_contents=10)
    solved = await solve(method, QUESTION, run, id="q", name="rat")
    asked, named = len(queries(run)), [name for _, name in effects(run)]
    assert solved.trajectory.stopped is None
    assert solved.trajectory.answer.text == ("Answer: Danube" if form is PHRASE else "\n\n".join(STEPS))
    assert named.count("revise") == min(1, asked)
    assert bool(notes(run, "ended early")) == (asked < 5)
    assert asked > 0 or tokens < 1300


async def test_an_empty_final_answer_leaves_the_thoughts():
    run = Run()
    answer = await rat(model(answer=" "), form=PHRASE).solve(QUESTION, run)
    assert answer.text == REVISIONS[-1]
    assert notes(run, "answer empty")


OUTLINE = "## The Danube\nVienna lies on the Danube.\n\n## The Rhine\nCologne lies on the Rhine, of 900 km."
CHECKED = "## The Danube\nVienna lies on the Danube.\n\n## The Rhine\nCologne lies on the Rhine, of 1230 km [1]."
WRITTEN = "# Two rivers\n\n## The Danube\nIt flows through Vienna.\n\n## The Rhine\nIt has 1230 km [1]."


async def test_a_long_text_is_written_as_a_whole_from_its_revised_parts():
    """Section 2.2: for creative writing the model is prompted again for the complete passage."""
    scripted = model(
        draft=OUTLINE, query=["danube", "rhine"], revise=["## The Danube\nVienna lies on the Danube.", CHECKED],
        answer=WRITTEN,
    )  # fmt: skip
    retriever = ScriptedRetriever([PASSAGES[2]])
    run = Run()
    answer = await rat(scripted, retriever, form=ARTICLE).solve(QUESTION, run)
    assert effects(run) == [("", "draft"), *rounds("query", "retrieve", "revise", count=2), ("", "answer")]
    (draft,) = prompts(run, "draft")
    assert "Each step is one part of the article: its subtitle" in draft
    assert "about 400 words" not in draft, "the draft is the parts, not the text"
    (final,) = prompts(run, "answer")
    assert CHECKED in final
    assert ARTICLE.instruction in final
    assert final.endswith("Keep the numbers in square brackets behind the facts that they stand behind.")
    assert answer.text == WRITTEN
    assert [citation.passage_id for citation in answer.citations] == ["rhine"]
    assert [step.text for step in answer.steps] == CHECKED.split("\n\n")
