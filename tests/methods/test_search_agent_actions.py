"""The Search Agent's actions: whatever a model writes, freely or by a grammar, is an action or a complaint."""

import ast
import json
import re
import warnings
from functools import cache

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from reground.core.errors import ParseError
from reground.core.language import Reply
from reground.core.run import Run
from reground.methods.search_agent import DECIDE, STEPS, SearchAgent, View, read
from reground.methods.search_agent.actions import (
    NAMES,
    Action,
    CheckAnswer,
    GivenAnswer,
    LinkSelection,
    ReviseAnswer,
    Search,
    Terminate,
    as_data,
    as_markers,
    existing,
    linked,
    literal,
    read_action,
    reply,
)
from reground.models.scripted import ScriptedModel
from reground.retrieval.scripted import ScriptedRetriever

SEARCH = Search("length of the Danube", "We need it.")


@pytest.mark.parametrize(
    "text",
    [
        "ACTION_SELECTED = ActionWrapper(thoughts='We need it.', action=Search(query='length of the Danube'))  # [END]",
        "ACTION_SELECTED = ActionWrapper(thoughts='We need it.', action=Search(query='length of the Danube'))",
        "ActionWrapper(thoughts='We need it.', action=Search(query='length of the Danube'))",
        "ActionWrapper('We need it.', Search('length of the Danube'))",
        "ACTION_SELECTED: Action = Search(query='length of the Danube', thoughts='We need it.')",
        "Search(query='length of the Danube', thoughts='We need it.')",
        "Search(query=' length of\\n the Danube ', thoughts='We need it.', urgency=3)",
        "actions.Search(query='length ' 'of the Danube', thoughts='We need it.')",
        (
            "# One comment.\n# Search(query='not this')\n"
            "ACTION_SELECTED = Search(query='length of the Danube', thoughts='We need it.')"
        ),
        "```python\nACTION_SELECTED = Search(query='length of the Danube', thoughts='We need it.')\n```",
        "Here it is:\n\n```\nSearch(query='length of the Danube', thoughts='We need it.')\n```\nI hope it's good.",
        "Let's see what's next.\nSearch(query='length of the Danube', thoughts='We need it.') and that's all.",
        (
            "It's this:\nACTION_SELECTED: Action = Search(query='length of the Danube',\n  thoughts='We need it.')\n"
            "Isn't it?"
        ),
        "Action: Search(query='length of the Danube', thoughts='We need it.')",
        "`Search(query='length of the Danube', thoughts='We need it.')`",
        "Search(query='length of the Danube', thoughts='We need it.')\nTerminate()",
        "Search(query='length of the Danube', thoughts='We need it.')  # [END]\nACTION_SELECTED = garbage(((",
        "import dataclasses\naction = Search(query='''length of the Danube''', thoughts='We need it.')",
    ],
)
def test_one_action_in_many_spellings(text: str) -> None:
    assert read_action(text)[0] == SEARCH


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("", "no action"),
        ("I would search for the Danube.", "no action"),
        ("Search(query='length of the", "no action"),
        ("Lookup(query='x')", "no action"),
        ("\0Search(query='x')\0", "no action"),
        ("Search()", "query is missing"),
        ("Search(query=5)", "no plain string"),
        ("Search(query=f'{x}')", "no plain string"),
        ("Search(query=open('/etc/passwd').read())", "no plain string"),
        ("Search(query='?!')", "query is empty"),
        ("Search(query='x', thoughts=None)", "no plain string"),
        ("Search('a', 'b', 'c')", "told apart"),
        ("Search(**{'query': 'x'})", "told apart"),
        ("Search('x', query='y')", "told apart"),
        ("ActionWrapper(thoughts='t')", "neither Search"),
        ("ActionWrapper(thoughts='t', action=Answer(answer='x'))", "neither Search"),
        ("ActionWrapper(thoughts='t', action=ActionWrapper(thoughts='t', action=Terminate()))", "neither Search"),
        ("LinkSelection(grounded_summarization='x', selected_link_ids=3)", "no list"),
        ("LinkSelection(grounded_summarization='x', selected_link_ids=['3'])", "no link id"),
        ("LinkSelection(grounded_summarization='x', selected_link_ids=[True])", "no link id"),
        ("LinkSelection(grounded_summarization='x', selected_link_ids=[-1])", "no link id"),
        (f"LinkSelection(grounded_summarization='x', selected_link_ids=[0x{'f' * 9000}])", "no link id"),
        ("LinkSelection(grounded_summarization=' ', selected_link_ids=[1])", "grounded_summarization is empty"),
        ("Answer(thoughts='t', answer='...')", "answer is empty"),
        ('{"action": "Search", "query": 5, "thoughts": ""}', "query is missing or no plain string"),
        ('{"action": "LinkSelection", "grounded_summarization": "a", "selected_link_ids": ["b"]}', "no link id"),
        ('{"action": "Fly"}', "no action in it"),
        ('{"action": ["Search"]}', "no action in it"),
        ("Answer('only one')", "answer is missing"),
        ("Check_Answer(passed='True')", "neither True nor False"),
        ("Revise_Answer(revised_answer='\\n')", "revised_answer is empty"),
    ],
)
def test_what_is_no_action_is_complained_of(text: str, complaint: str) -> None:
    with pytest.raises(ParseError, match=complaint):
        read_action(text)[0]


@given(st.text(st.characters(exclude_categories=["Cs"])))
@example("it's")
@example('she said "it\'s"\\')
def test_literals_are_in_double_quotes_on_one_line_and_mean_the_text(text: str) -> None:
    written = literal(text)
    assert written[0] == written[-1] == '"'
    assert ast.literal_eval(written) == text
    assert len(written.splitlines()) == 1


@pytest.mark.parametrize(
    ("text", "action"),
    [
        ("Search(query='It's long')", Search("It's long")),
        ("Search(query='Who's Afraid?', thoughts='Let's see.',\n)", Search("Who's Afraid?", "Let's see.")),
        (
            "ACTION_SELECTED = ActionWrapper(thoughts='It's.', action=Search(query='Schindler's List year'))  # [END]",
            Search("Schindler's List year", "It's."),
        ),
        (
            "ActionWrapper(thoughts='It's new.', action=Search(query='Schindler's List')",
            Search("Schindler's List", "It's new."),
        ),
        ("ActionWrapper(thoughts='It's new.', action=Search(query='Schindler's List'", None),
        ("ActionWrapper(thoughts='It's done.', action=Terminate())", Terminate("It's done.")),
        (
            "# It's [1].\nACTION_SELECTED = LinkSelection(grounded_summarization='[link_id=1] says that it's \"old\".'"
            ", thoughts='', selected_link_ids=[1, 3])",
            LinkSelection('[link_id=1] says that it\'s "old".', (1, 3)),
        ),
        (
            'Answer(thoughts="So.", answer="The "Ark" sank.\nIt\'s gone.")',
            GivenAnswer('The "Ark" sank.\nIt\'s gone.', "So."),
        ),
        ("Answer(thoughts='It's \\'so\\'.', answer='C:\\\\x')", GivenAnswer("C:\\x", "It's 'so'.")),
        (
            "Answer(thoughts='a', answer='It's 5 (five).')\nI took 'five' (see 'four').",
            GivenAnswer("It's 5 (five).", "a"),
        ),
        ("Answer(answer='It's 5.')\nAnswer(answer='It's 6.')", GivenAnswer("It's 5.")),
        ("Revise_Answer(revised_answer='It's 5.')", ReviseAnswer("It's 5.")),
        ("Answer(answer='It's a river that is", None),
        ("Answer(thoughts='It's said, answer='Five'", None),
        ("Answer(answer=It's five)", None),
        ("Answer('It's five')", None),
        ("I'd say that it's five.", None),
        ("ActionWrapper(thoughts='It's new.')", None),
        ("Search(query='\0It's')", None),
        ("Search(query='It's \\x')", None),
    ],
)
def test_a_reply_whose_quotes_are_wrong_is_mended_where_its_meaning_is_plain(text: str, action: Action | None) -> None:
    with pytest.raises(ParseError, match="no action in it that is valid Python"):
        read_action(text)[0]
    if action is not None:
        assert read_action(text, mend=True) == (action, True)
    else:
        with pytest.raises(ParseError):
            read_action(text, mend=True)


def test_a_valid_reply_and_one_that_was_cut_are_not_mended() -> None:
    assert read_action("Search(query='long')", mend=True) == (Search("long"), False)
    with pytest.raises(ParseError, match="told apart"):
        read_action("Search(query='a', query='b')", mend=True)
    cut = Reply(text="Answer(thoughts='t', answer='It's long')", finish_reason="length")
    assert read(cut, (GivenAnswer,), View("q"))[1] is None


sayings = st.text(st.characters(categories=["L", "N", "Zs"], include_characters="'\".,?!"), min_size=1)


@given(st.sampled_from(["'", '"']), sayings.filter(lambda said: any(char.isalnum() for char in said)))
def test_whatever_a_title_holds_it_is_read_back(quote: str, said: str) -> None:
    said = f"x{said}x"
    text = f"Answer(thoughts={quote}So.{quote}, answer={quote}{said}{quote})"
    action, repaired = read_action(text, mend=True)
    if repaired:
        assert action == GivenAnswer(said, "So.")


DEEP = [
    "(" * 10_000,
    "Search(query=" + "(" * 9_000 + "'x'" + ")" * 9_000 + ")",
    "Search(query=" + "[" * 15_000,
    "Search(query=" + "-" * 15_000 + "1)",
    "Search(query=" + "not " * 4_000 + "1)",
    "Search(query='x'" + ".a" * 9_000 + ")",
    "Search(query=" + "'x'+" * 4_000 + "'x')",
    "Search(query=" + "lambda:" * 2_500 + "1)",
    "Search(query=" + "f(" * 6_000 + ")" * 6_000 + ")",
    "Search(query=" + "9" * 10_000 + ")",
    "Search(query=1e" + "9" * 100 + ")",
    "if 1:\n" + "".join(" " * i + "if 1:\n" for i in range(1, 150)) + "Search(query='x')",
    "Search(query='x')\n" * 1_000,
    "Search(" * 2_000,
    "Search(\n" * 2_000,
    "`" * 20_000,
    "```\n" * 5_000,
    "Search(query='" + "\\" * 10_001 + "')",
    "Search(query='\ud800')",
    "Search(query='\\ud800')",
    "Search(query='\\x00x')",
    "Search(query='\\d')",
    "Search(query='\\N{nothing}')",
    "'" * 20_000,
    "#" * 30_000,
]


@pytest.mark.parametrize("text", DEEP, ids=lambda text: text[:24])
def test_hostile_replies_are_survived(text: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        try:
            action = read_action(text)[0]
        except ParseError:
            return
    assert isinstance(action, Search)
    action.query.encode("utf-8")
    assert "\0" not in action.query


CALLED = ["ActionWrapper", "Search", "Terminate", "LinkSelection", "Answer", "Check_Answer", "Revise_Answer", "Nothing"]
FIELDS = ["query", "thoughts", "action", "answer", "passed", "revised_answer", "selected_link_ids"]
pieces = st.one_of(
    st.sampled_from([*(f"{name}(" for name in CALLED), *(f"{field}=" for field in FIELDS), ")", ", ", "*x", "**x"]),
    st.sampled_from(["True", "None", "...", "b''", "f'{x}'", "lambda: 0", "[1, 2]", "ACTION_SELECTED: Action = "]),
    st.sampled_from(["ACTION_SELECTED = ", "```python\n", "```", "\n", "# ", "  # [END]"]),
    st.text(max_size=8).map(repr),
    st.text(max_size=20),
)


@settings(max_examples=300)
@given(st.one_of(st.text(), st.lists(pieces, max_size=12).map("".join)))
@example("Search(query='\ud800')")
def test_any_text_gives_a_typed_action_or_a_counted_discard(text: str) -> None:
    try:
        action = read_action(text)[0]
    except ParseError as complaint:
        assert str(complaint)
    else:
        assert isinstance(action, Action)
        assert as_data(action)["action"] == type(action).__name__
    if text.isprintable():
        for step in STEPS:
            candidate, usable, _ = read(Reply(text=text), step.kinds, View("q"))
            assert (usable is None) == (candidate.discarded is not None)


filled = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")).map(str.strip)
filled = filled.filter(lambda text: any(map(str.isalnum, text)))
queries = filled.map(lambda text: f"q{' '.join(text.split())}")


@given(
    st.one_of(
        st.builds(Search, queries, filled),
        st.builds(Terminate, filled),
        st.builds(LinkSelection, filled, st.lists(st.integers(1, 99), unique=True).map(tuple), filled),
        st.builds(GivenAnswer, filled, filled),
        st.builds(CheckAnswer, st.booleans()),
        st.builds(ReviseAnswer, filled),
    )
)
def test_what_is_written_as_code_is_read_back(action: Action) -> None:
    if "# [END]" not in str(as_data(action)):
        assert read_action(reply(action, ["A comment."]))[0] == action


def test_the_exemplars_are_as_many_as_in_the_paper_and_are_read_as_they_are_meant() -> None:
    assert [len(step.exemplars) for step in STEPS] == [9, 6, 5, 6, 5]
    for step in STEPS:
        for exemplar in step.exemplars:
            written = reply(exemplar.action, exemplar.comments)
            assert read(Reply(text=written), step.kinds, exemplar.view)[1] == exemplar.action


@pytest.mark.parametrize(
    ("text", "kept", "unknown"),
    [
        ("It is long [link_id=1].", "It is long [link_id=1].", []),
        ("It is long [link_id=9].", "It is long.", [9]),
        ("[link_id=1, link_id=9] says so.", "[link_id=1] says so.", [9]),
        ("See [link_id=1, 2] and (link_id=2).", "See [link_id=1][link_id=2] and [link_id=2].", []),
        ("By link_id=2 it is 5 km.", "By [link_id=2] it is 5 km.", []),
        ("By link_id 7 it is.", "By it is.", [7]),
        ("Long [1] and wide [1, 8].", "Long [link_id=1] and wide [link_id=1].", [8]),
        ("Year [1989] stays.", "Year [1989] stays.", []),
        ("`x[3]` and\n```\ny[4]\n```", "`x[3]` and\n```\ny[4]\n```", []),
        ("[link_id=" + "9" * 5000 + "]", "", [999_999_999]),
        ("See `[link_id=99]` and `[link_id=1]`, `link_id = 3`.", "See  and `[link_id=1]`, `link_id = 3`.", [99]),
        ("A ['link_id'=99] stays odd.", "A ['link_id'=99] stays odd.", []),
        ("[link_id='99'] [link_id=\"1\"] [link_id=#2] [link_id={98}]", "[link_id=1] [link_id=2]", [99, 98]),
        (
            "[99, link_id=1] and [link_id=1-97] and [1989, link_id=2]",
            "[link_id=1] and [link_id=1] and [link_id=2]",
            [99, 97, 1989],
        ),
        ("[1-3] is an interval, [2019-2021] years.", "[1-3] is an interval, [2019-2021] years.", []),
        ("What is left: [link_id=[9]9].", "What is left:.", [9]),
        ("He wrote ``yes'' and [3].", "He wrote ``yes'' and.", [3]),
        ("Use ``x[3]`` here.", "Use ``x[3]`` here.", []),
        ("The link id 5 column, a {link_id: 7} and (link id 5).", "The link id 5 column, a {} and (link id 5).", [7]),
        ("See link_ids 1 and 9, link id: 2.", "See [link_id=1][link_id=2].", [9]),
    ],
)
def test_only_links_that_exist_stay(text: str, kept: str, unknown: list[int]) -> None:
    assert existing(text, [1, 2]) == (kept, unknown)


LINK_PIECES = ["[link_id=1]", "link_id=7", "[3]", "(", ", 2]", "[link_id=", " ", "`", "\n", "'8'", "#9", "-", "]"]


@given(st.one_of(st.text(), st.lists(st.sampled_from(LINK_PIECES))
                 .map("".join)), st.sets(st.integers(1, 9)))  # fmt: skip
def test_no_text_keeps_a_link_that_does_not_exist(text: str, known: set[int]) -> None:
    kept, unknown = existing(text, known)
    assert set(linked(kept)) <= known
    assert not set(unknown) & known
    assert "[link_id=1]" not in as_markers(kept)
    prose = re.sub(r"```.*?(?:```|\Z)|`[^`\n]*`", "", as_markers(kept), flags=re.DOTALL)
    assert {int(number) for number in re.findall(r"\[(\d{1,3})\]", prose)} <= known


LINKS = (2, 3, 17)
_PART = re.compile(r""""((?:\\.|[^"\\])*)"|(\[(?:\\.|[^\]\\])*\])|([a-z]+)|(\{[\d,]+\}|[()|?*+])|\s+""")


def regular(gbnf: str) -> str:
    """The grammar as a regular expression: none of its rules refers to itself."""
    rules = dict(line.split(" ::= ", 1) for line in gbnf.splitlines())

    def expression(name: str) -> str:
        return "(?:" + "".join(part(*found.groups()) for found in _PART.finditer(rules[name])) + ")"

    def part(literal: str | None, characters: str | None, name: str | None, sign: str | None) -> str:
        if literal is not None:
            return f"(?:{re.escape(json.loads(chr(34) + literal + chr(34)))})"
        return characters or (expression(name) if name else sign or "")

    return expression("root")


PRINTABLE = {
    r"\u00C0-\U0010FFFF": "",
    r'[^"\\#\x00-\x1F\x7F]': r"[ !$-\[\]-~]",
    r'[^ "\\#\x00-\x1F\x7F]': r"[!$-\[\]-~]",
    r"[^\n]": "[ -~]",
}
"""Classes of characters, and their printable ASCII: strategies take long over all of Unicode."""


each_step = pytest.mark.parametrize("number", range(len(STEPS)), ids=[step.name for step in STEPS])


@cache
def said(step_number: int) -> st.SearchStrategy[str]:
    pattern = regular(STEPS[step_number].grammar(LINKS).gbnf)
    for whole, printable in PRINTABLE.items():
        assert whole in pattern or whole == r"[^\n]"
        pattern = pattern.replace(whole, printable)
    return st.from_regex(pattern, fullmatch=True)


@each_step
def test_every_exemplar_keeps_to_the_grammar(number: int) -> None:
    step = STEPS[number]
    for each in step.exemplars:
        links = tuple(link.link_id for link in each.view.results or ())
        pattern = regular(step.grammar(links).gbnf)
        said = reply(each.action, each.comments)
        assert re.fullmatch(pattern, said)
        assert not re.fullmatch(pattern, said + " and more")
        assert not re.fullmatch(pattern, said.replace("ACTION_SELECTED = ", "ACTION: "))


@each_step
@given(data=st.data())
def test_whatever_the_grammar_allows_can_be_read(number: int, data: st.DataObject) -> None:
    text = data.draw(said(number))
    action, repaired = read_action(text, mend=False)
    assert isinstance(action, STEPS[number].kinds)
    assert not repaired
    if isinstance(action, LinkSelection):
        assert set(action.selected_link_ids) <= set(LINKS)


@each_step
@given(data=st.data())
def test_whatever_the_schema_allows_can_be_read(number: int, data: st.DataObject) -> None:
    step = STEPS[number]
    schema = json.loads(step.grammar(LINKS).json_schema)
    assert schema["required"] == list(schema["properties"])
    said = {name: data.draw(value(form)) for name, form in schema["properties"].items()}
    action = read_action(json.dumps(said))[0]
    assert NAMES[type(action)] == said["action"]


def value(form: dict[str, object]) -> st.SearchStrategy[object]:
    match form["type"]:
        case "boolean":
            return st.booleans()
        case "array":
            return st.lists(st.sampled_from(LINKS))
        case _ if "enum" in form:
            return st.sampled_from(form["enum"])
        case _:
            return st.text(min_size=1).map(lambda text: f"a{text}")


async def test_the_agent_asks_for_its_steps_grammars() -> None:
    said = [reply(step.exemplars[0].action, step.exemplars[0].comments) for step in STEPS]
    for setting in ("off", "welcome", "needed"):
        model = ScriptedModel([*said] * 9)
        agent = SearchAgent(
            model=model, retriever=ScriptedRetriever({}), samples=1, temperature=0.0, grammar=setting, checks=False
        )
        await agent.solve("Why?", Run())
        asked = model.calls[0][1].grammar
        assert asked == (None if setting == "off" else DECIDE.grammar(()))
