import asyncio
import math
import os
import shutil
import subprocess
import sys
from pathlib import Path
from unicodedata import normalize

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from reground.core.evidence import Passage
from reground.retrieval.bm25 import Bm25Index, Bm25Writer
from reground.text.languages import language_code
from tests.retrieval.scripts import CORPORA, JAPANESE

PASSAGES = [
    Passage(id="cats", title="Cats", text="Cats purr when they are content.", url="cats.md"),
    Passage(id="dogs", title="Dogs", text="Dogs bark at cats and at strangers."),
    Passage(id="birds", title="", text="A bird sings in the morning."),
]


def make(folder: Path, passages: list[Passage] = PASSAGES, language: str = "en") -> Bm25Index:
    writer = Bm25Writer(folder, language)
    for key, passage in enumerate(passages, start=1):
        writer.add(key, [passage])
    assert writer.finish() == len(passages)
    writer.close()
    return Bm25Index(folder, language)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> Bm25Index:
    return make(tmp_path_factory.mktemp("bm25"))


def test_passages_come_back_as_they_went_in(index: Bm25Index) -> None:
    found = index.search("purring cat", 5)
    assert [passage.id for passage in found] == ["cats", "dogs"]
    assert found[0].model_copy(update={"score": 0.0}) == PASSAGES[0]
    assert found[0].score > found[1].score > 0
    assert index.search("birds", 5)[0].model_copy(update={"score": 0.0}) == PASSAGES[2]


def test_a_large_folder_is_written_again_only_after_many_removals(tmp_path: Path) -> None:
    def removed(first: int, last: int) -> int:
        writer = Bm25Writer(tmp_path, "en", exact_up_to=100)
        for key in range(first, last):
            writer.remove(key)
        left = writer.finish()
        writer.close()
        return left

    make(tmp_path, [Passage(id=f"n{number}", text=f"number{number} of all") for number in range(1000)])
    files = set(tmp_path.glob("*.store"))
    assert removed(1, 9) == 992
    assert files == set(tmp_path.glob("*.store"))
    found = [len(Bm25Index(tmp_path, "en").search(f"number{number}", 3)) for number in (0, 7, 8)]
    assert found == [0, 0, 1]
    assert removed(9, 13) == 988  # twelve in all, more than a hundredth
    assert not files & set(tmp_path.glob("*.store"))
    assert [len(Bm25Index(tmp_path, "en").search(f"number{number}", 3)) for number in (11, 12)] == [0, 1]


def test_scores_are_bm25(tmp_path: Path) -> None:
    texts = ["apple a", "apple banana", "cherry cherry cherry banana"]
    index = make(tmp_path, [Passage(id=str(i), text=text) for i, text in enumerate(texts)], "none")
    length = {0: 2, 1: 2, 2: 4}
    mean = sum(length.values()) / 3

    def bm25(frequency: int, containing: int, of: int) -> float:
        idf = math.log(1 + (3 - containing + 0.5) / (containing + 0.5))
        return idf * frequency * 2.2 / (frequency + 1.2 * (1 - 0.75 + 0.75 * length[of] / mean))

    assert {p.id: p.score for p in index.search("cherry", 3)} == {"2": pytest.approx(bm25(3, 1, 2), rel=1e-4)}
    both = {p.id: p.score for p in index.search("apple banana apple", 3)}
    assert both["1"] == pytest.approx(2 * bm25(1, 2, 1) + bm25(1, 2, 1), rel=1e-4)
    assert both["2"] == pytest.approx(bm25(1, 2, 2), rel=1e-4)


@pytest.mark.parametrize(
    "query",
    ['"cats', "title:cats AND (", "+cats -dogs", "[a TO b]", "cats\0dogs", "\ud800 cats", "\\", "the of and", " \n!?"],
)
def test_a_query_is_text_and_never_syntax(index: Bm25Index, query: str) -> None:
    expected = {"cats", "dogs"} if "cats" in query or "dogs" in query else set()
    assert {passage.id for passage in index.search(query, 5)} == expected
    assert [len(index.search(query, k)) for k in (1, 0, -1)] == [min(1, len(expected)), 0, 0]


@settings(max_examples=150)
@given(query=st.text(max_size=200))
def test_no_query_fails(index: Bm25Index, query: str) -> None:
    assert len(index.search(query, 3)) <= 3


def test_a_long_query_keeps_its_rarest_words(tmp_path: Path) -> None:
    common = [Passage(id=f"c{i}", text=" ".join(f"word{j}" for j in range(200))) for i in range(20)]
    index = make(tmp_path, [*common, Passage(id="needle", text="quokka habitat")])
    draft = " ".join([f"word{i}" for i in range(200)] * 50 + ["unheard"] * 50 + ["quokka"])
    assert len(draft.split()) > 10_000
    found = index.search(draft, 21)
    assert "needle" in {passage.id for passage in found}
    assert len(index.search("words " * 100_000 + "quokka", 3)) == 0  # the end of a query beyond all measure is cut off


async def test_threads_can_search_at_once(index: Bm25Index) -> None:
    results = await asyncio.gather(*(asyncio.to_thread(index.search, "cats", 2) for _ in range(50)))
    assert all([passage.id for passage in found] == ["cats", "dogs"] for found in results)


@pytest.mark.parametrize(
    ("language", "text", "query"),
    [
        ("en", "The runners were running.", "run"), ("de", "Die Häuser der Stadt", "Haus Häusern"),
        ("fr", "les chevaux continuèrent", "continuer"), ("russian", "столица России", "столицей"),
        ("none", "running shoes", "running"),
    ],
)  # fmt: skip
def test_the_language_picks_the_stemmer(tmp_path: Path, language: str, text: str, query: str) -> None:
    passages = [Passage(id="0", text=text), Passage(id="1", text="zzz")]
    assert [p.id for p in make(tmp_path, passages, language_code(language)).search(query, 2)] == ["0"]


def test_chinese_is_segmented(tmp_path: Path) -> None:
    pytest.importorskip("jieba", reason="needs the extra [zh]")
    passages = [
        Passage(id="beijing", title="北京", text="中华人民共和国的首都是北京，历史悠久。"),
        Passage(id="shanghai", title="上海", text="上海是中国最大的城市之一。"),
        Passage(id="english", text="Hello world from China."),
    ]
    index = make(tmp_path, passages, "zh")
    assert index.search("首都在哪里？", 3)[0].id == "beijing"
    assert index.search("上海", 3)[0].id == "shanghai"
    assert index.search("hello", 3)[0].id == "english"
    assert index.search("首都", 1)[0].text == passages[0].text
    assert index.search("的是", 3) == []


@pytest.mark.parametrize("script", CORPORA)
def test_writing_without_spaces_is_found_in_an_index_of_any_language(tmp_path: Path, script: str) -> None:
    texts, questions = CORPORA[script]
    index = make(tmp_path, [Passage(id=id_, text=text) for id_, text in texts.items()])
    assert {question: index.search(question, 1)[0].id for question in questions} == questions


@pytest.mark.parametrize(
    ("text", "query"),
    [
        (normalize("NFD", "Die Übung beginnt."), "Übung"),
        ("Die Übung beginnt.", normalize("NFD", "Übung")),
        ("Das Donau\u00addampf\u00adschiff fährt.", "Donaudampfschiff"),
        ("An eﬃcient ﬁlter.", "efficient"),
        ("ＮＡＳＡの発表", "NASA"),
        ("ﾃｽﾄの結果", "テスト"),
        (normalize("NFD", "한글 문서"), "한글"),
        ("ﻣﺮﺣﺒﺎ", "مرحبا"),
        ("Das Rindfleischetikettierungsüberwachungsaufgabenübertragungsgesetz.",) * 2,
        ("It is e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855.",) * 2,
        (JAPANESE["cat"], "猫"),
    ],
)
def test_a_word_is_found_however_its_letters_are_written(tmp_path: Path, text: str, query: str) -> None:
    index = make(tmp_path, [Passage(id="a", text=text), Passage(id="b", text="Owls hoot.")])
    assert [(passage.id, passage.text) for passage in index.search(query, 3)] == [("a", text)]


@pytest.mark.parametrize(
    ("text", "query"),
    [
        ("Ms Nováková plays here.", "Novakova"),
        ("The ferry to Ærøskøbing.", "Aeroskobing"),
        ("The mine of Wałbrzych.", "walbrzych"),
        ("Mr Schröder is in.", "Schroeder"),
        ("The port of Đà Nẵng.", "da nang"),
        ("Ο δρόμος της Ύδρας.", "υδρας"),
        ("Лётчик Королёв.", "королев"),
        ("Старый за\u0301мок.", "замок"),
        ("كَتَبَ", "كتب"),
        ("مكتبة أحمد", "احمد"),
        ("סֵפֶר", "ספר"),
        ("Mr O’Malley rows.", "omalley"),
        ("The N.A.T.O. base.", "NATO"),
        ("Write to mayor@hollem.example today.", "mayor@hollem.example"),
        ("let tidalGauge = 3", "tidal gauge"),
        ("class TIDEGaugeReader:", "gauge reader"),
        ("def tide_gauge(x):", "tideGauge"),
        ("ПолучитьОстатки()", "получить"),
        ("Ο Ιάσων της Πάρου και ο Άδωνις.", "ΑΔΩΝΙΣ"),
        ("The people of Niʻihau and Saʿīd.", "niihau"),
        ("می\u200cنویسم", "مینویسم"),
        ("call max\u200bPool\u200bSize first", "maxpoolsize"),
        ("ISBN 978-0-306-40615-7.", "9780306406157"),
        ("Mail clerk@hollem.example or ring.", "hollem.example"),
    ],
)
def test_a_word_is_found_in_its_other_spellings(tmp_path: Path, text: str, query: str) -> None:
    others = [Passage(id=f"b{number}", text="Owls hoot in the wood.") for number in range(3)]
    index = make(tmp_path, [*others, Passage(id="a", text=text)], "none")
    assert [passage.id for passage in index.search(query, 2)] == ["a"]


@pytest.mark.parametrize(
    ("exact", "other"),
    [("Muller", "Müller"), ("Müller", "Muller"), ("email", "e-mail"), ("tidegauge", "tideGauge"), ("резус", "рёзус")],
)
@pytest.mark.parametrize("times", [1, 4])
def test_the_spelling_that_was_asked_for_comes_first(tmp_path: Path, exact: str, other: str, times: int) -> None:
    texts = [f"Here is {exact} with the keys.", *[f"Here is {other} with the keys."] * times]
    passages = [Passage(id=str(-number), text=text) for number, text in enumerate(texts)]
    found = make(tmp_path, passages, "none").search(exact, 9)
    assert (found[0].text, len(found)) == (texts[0], 1 + times)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("4.12.1", "It came with tidectl-v4.12.1-arm64.deb."),
        ("192.168.7.31", "The gauge answers at 192.168.7.31 by night."),
        ("2031-05-09", "Due on 2031-05-09 or later."),
    ],
)
def test_numbers_with_marks_are_found_in_their_order(tmp_path: Path, name: str, text: str) -> None:
    numbers = name.replace("-", ".").split(".")
    others = ["-".join(numbers[::-1]), ".".join([*numbers[1:], numbers[0]]), " and ".join(numbers * 2)]
    texts = [f"Here is {other}, {other}." for other in others]
    index = make(tmp_path, [Passage(id=str(n), text=each) for n, each in enumerate([*texts, text])])
    assert index.search(f"Where does it say {name}?", 4)[0].text == text


@pytest.mark.parametrize(("first", "second"), [("か", "が"), ("कम", "कीमो"), ("3.11", "311"), ("its", "it's")])
def test_other_words_stay_apart(tmp_path: Path, first: str, second: str) -> None:
    index = make(tmp_path, [Passage(id="a", text=f"{first} {first}"), Passage(id="b", text="Owls hoot.")], "none")
    assert index.search(second, 3) == []


@pytest.mark.parametrize(
    ("name", "defined"),
    [
        ("TIDE_LEVEL", ".. data:: TIDE_LEVEL\n\n   How high the water stands."),
        ("tide_level", "- `tide_level`: how high the water stands in the tide of the level."),
        ("tide-level", "| tide-level | how high the water stands |"),
        ("tideLevel", "export function tideLevel(port) {\n  return 3;\n}"),
        ("tide_level", "    async def tide_level(self, port):\n        return 3"),
    ],
)
def test_a_name_asked_alone_finds_its_definition_first(tmp_path: Path, name: str, defined: str) -> None:
    texts = ["Tide and level: the level of a tide is a tide level. " * 3, f"Call {name} early, says the tide table."]
    texts += [f"if x:\n    return {name}(x)", f"The {name} is read at noon."]
    passages = [Passage(id=str(number), title="Tide level", text=text) for number, text in enumerate(texts)]
    index = make(tmp_path, [*passages, Passage(id="z", title="Names", text=defined)])
    assert index.search(name, 2)[0].id == index.search(f"{name}()", 2)[0].id == "z"
    assert {found.id for found in index.search(name, 4)[1:]} == {"1", "2", "3"}


_OPENED = """
import sys
from pathlib import Path
from reground.retrieval.bm25 import Bm25Index
print([passage.id for passage in Bm25Index(Path(sys.argv[1]), "en").search("cats", 5)])
"""


def test_a_folder_that_nobody_may_write_to_is_searched(tmp_path: Path) -> None:
    make(tmp_path / "bm25")
    (tmp_path / "bm25" / ".tantivy-meta.lock").chmod(0o400)
    (tmp_path / "bm25").chmod(0o500)
    command = [sys.executable, "-c", _OPENED, str(tmp_path / "bm25")]
    if os.geteuid() == 0:  # who may write anywhere, unless this is taken away
        if shutil.which("setpriv") is None:
            pytest.skip("root may write anywhere")
        command = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all", *command]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    finally:
        (tmp_path / "bm25").chmod(0o700)
    assert (done.stdout, done.stderr) == ("['cats', 'dogs']\n", "")
