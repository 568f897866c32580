"""Files of HTML: which part of a page is read, how, and what is said of the rest."""

import pytest

from reground.retrieval.encodings import Unreadable
from reground.retrieval.reading.shown import outline
from reground.retrieval.reading.web import parsed, plain
from tests.retrieval.files import read

PROSE = "".join(f"<p>Sentence {n} tells of the river, its banks and the people there.</p>" for n in range(6))


@pytest.mark.parametrize(
    "part",
    [
        "<details><summary>Can I fish?</summary><div>From 4 May.</div></details>",
        '<div class="share"><span>From</span> <span>4 May.</span></div>',
        "<my-card><label>From 4</label> <output>May.</output></my-card>",
        "<p>From <time>4 May</time>.</p>",
        "<aside>From <q>4 May.</q></aside>",
        "<button>From 4 May.</button>",
        '<section class="comments related author"><footer>From 4 May.</footer></section>',
        '<pre><button>Copy</button><code><a id="l1"></a>From 4 May.</code></pre>',
    ],
)
def test_all_of_a_marked_main_part_is_read(part: str) -> None:
    for begins, ends in (("<main>", "</main>"), ('<div role="main">', "</div>"), ("<article>", "</article>")):
        document = read("a.html", f"<body><nav>Home</nav>{begins}<h1>Fish</h1>{PROSE}{part}{ends}<footer>Imprint")
        said = " ".join(document.text.split())
        assert "4 May" in said and "Home" not in said and "Imprint" not in said and "Copy" not in said
        assert (document.title, document.partly) == ("Fish", "")


def test_a_page_without_a_main_part_is_read_without_what_stands_around_it() -> None:
    for around in ("nav", "header", "footer"):
        assert read("a.html", f"<{around}>Menu</{around}><div>The Rhine.</div>").text == "The Rhine."
    assert read("a.html", '<div role="navigation">Menu</div><div>The Rhine.</div>').text == "The Rhine."
    assert read("a.html", "<header><h1>Rivers</h1>by Ada</header><p>Long.").text == "# Rivers\n\nby Ada\n\nLong."
    assert read("a.html", "<section><header>By Ada</header><p>Long.</section>").text == "By Ada\n\nLong."
    assert read("a.html", "<nav>Only a menu.</nav>").text == "Only a menu."
    assert read("a.html", "<main></main><p>Long.").text == "Long."


def test_what_is_left_out_of_a_page_is_named() -> None:
    document = read("a.html", f"<p>The Rhine.</p><aside>Closed in May.</aside>{PROSE}")
    assert "Closed" not in document.text
    assert document.partly == "3 words beside its main part were not read"
    document = read("a.html", f"<main><p>The Rhine.</p></main><div>{PROSE}</div>")
    assert document.text == "The Rhine." and "words beside" in document.partly
    cards = f"<article>Rhine</article><article>Danube</article><div>{PROSE}</div>"
    assert "Sentence 5" in read("a.html", cards).text
    assert read("a.html", "<main>Long.</main><nav>" + "menu " * 99 + "</nav><p>(c) Ada 2024</p>").partly == ""


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ('<a href="https://q.example/leaks">here</a>.', "here (https://q.example/leaks)."),
        ('<a href="mailto:bo@q.example?subject=x">us</a> <a href="tel:+4712">', "us (bo@q.example)"),
        ('<a href="https://q.example/a">A</a> <a href="https://q.example/a">B</a>', "A (https://q.example/a) B"),
        ('<a href="https://q.ex/">https://q.ex</a> <a href="/in">in</a><a href="#x">x</a>', "https://q.ex inx"),
        ("<ruby>漢<rp>(</rp><rt>かん</rt><rp>)</rp>字<rt>じ</rt></ruby>", "漢字"),
        ('<h2>One <a href="https://q.example/e">edit</a></h2>', "## One edit"),
        ('<a href="https://q.ex/s"><code>str</code></a> <pre><a href="https://q.ex/t">t', "str\n\n```\nt\n```"),
        ('<label>Ship <input value="Nordlys"></label><input type="hidden" value="no">', "Ship Nordlys"),
        ('<input type="checkbox" checked> A <input type="RADIO" value="g"> B<input type="radio">', "[x] A [ ] B"),
        ("<select><option>Oil<option selected>Steam</select><textarea>At\n9</textarea>", "Oil\n[x] Steam\nAt 9"),
        ('<input type="password" value="no"><input placeholder="Your name"><input>', "Your name"),
        ('<img alt="A crane"><img alt="x.jpeg"><img alt=""><a href="b"><img alt="no"></a>', "[picture: A crane]"),
    ],
)
def test_links_fields_and_pictures_say_what_they_hold(html: str, text: str) -> None:
    assert read("a.html", f"<main>{html}</main>").text == text


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("2 x 10<sup>9</sup> fish", "2 x 10^9 fish"),
        ("10<sup>&minus;3</sup> m", "10^−3 m"),
        ("x<sup>n+1</sup>", "x^(n+1)"),
        ("2<sup>2<sup>3</sup></sup>", "2^(2^3)"),
        ("10<sup>6</sup>5", "10^6 5"),
        ("the 19<sup>th</sup> and 1<sup>er</sup>", "the 19th and 1er"),
        ('in 1931<sup><a href="#n1">1</a></sup>.', "in 1931[1]."),
        ('in 1931<a href="#n1"><sup>[2]</sup></a>.', "in 1931[2]."),
        ("<sup>1</sup> A note.", "1 A note."),
        ("Na<sup>+</sup> and 5 m<sup>2</sup>", "Na+ and 5 m^2"),
        ("H<sub>2</sub>O, 101<sub>2</sub>, x<sub>i+1</sub>, log<sub>10</sub>100", "H2O, 101_2, x_(i+1), log10 100"),
        ("3<sup>1</sup>/<sub>12</sub> or <sup>2</sup>&frasl;<sub>3</sub>", "3 1/12 or 2⁄3"),
    ],
)
def test_raised_and_lowered_numbers_stay_apart(html: str, text: str) -> None:
    assert plain(f"<p>{html}</p>") == (text, "")


def math(inner: str) -> str:
    return f"is <math>{inner}</math>."


@pytest.mark.parametrize(
    ("inner", "text"),
    [
        ("<mfrac><mn>3</mn><mn>16</mn></mfrac>", "3/16"),
        ("<mfrac><mrow><mi>a</mi><mo>+</mo><mi>b</mi></mrow><mn>2</mn></mfrac>", "(a+b)/2"),
        ("<mn>2</mn><mfrac><mn>1</mn><mn>2</mn></mfrac>", "2 1/2"),
        ("<msup><mn>7</mn><mn>3</mn></msup>", "7^3"),
        ("<msubsup><mi>x</mi><mn>1</mn><mn>2</mn></msubsup>", "x_1^2"),
        ("<msqrt><mn>16</mn></msqrt><mo>=</mo><mroot><mn>64</mn><mn>3</mn></mroot>", "√16=³√64"),
        ("<msqrt><mi>x</mi><mo>-</mo><mn>1</mn></msqrt>", "√(x-1)"),
        ("<semantics><mn>5</mn><annotation>\\five</annotation></semantics>", "5"),
        ("<mtable><mtr><mtd><mn>1</mn></mtd><mtd><mn>2</mn></mtd></mtr><mtr><mtd><mn>3</mn></mtd></mtr></mtable>",
         "1, 2; 3"),
        ("<mfrac><mn>3</mn></mfrac>", "3"),
        ("", ""),
    ],
)  # fmt: skip
def test_a_formula_is_read_on_one_line(inner: str, text: str) -> None:
    assert plain(math(inner))[0] == f"is {text}." if text else "is ."
    shown = f'<span><span>{math(inner)}</span><span aria-hidden="true">3 16</span></span>'
    assert plain(shown)[0].endswith(f"{text}.")


@pytest.mark.parametrize(
    ("html", "text"),
    [
        ("<ol start=4><li>Pay.<li><p>Leave.</p></ol>", "4. Pay.\n5. Leave."),
        ("<ol type=a><li>Pay.<li value=4>Leave.</ol>", "a. Pay.\nd. Leave."),
        ("<ol type=I start=4><li>Pay.</ol><ol reversed><li>Two<li>One</ol>", "IV. Pay.\n2. Two\n1. One"),
        ("<ul><li>One<ol><li>Inner</ol><li>Two</ul>", "- One\n1. Inner\n- Two"),
        ("<ol start=x><li><li value=''>Two</ol>", "2. Two"),
    ],
)
def test_lists_keep_their_numbers(html: str, text: str) -> None:
    assert plain(html)[0].replace("\n\n", "\n") == text


def test_code_is_kept_as_it_is() -> None:
    html = "<p>Say:<div><pre><code># set\nif x:\n    y<br>z<sup>2</sup></code></pre></div><ol><li><pre>```\n</pre></ol>"
    assert plain(html)[0] == "Say:\n\n```\n# set\nif x:\n    y\nz2\n```\n\n1. \n\n~~~\n```\n~~~"
    assert plain("<pre><div>one</div><div>two</div></pre>")[0] == "```\none\ntwo\n```"
    assert plain("<pre> </pre><p>Long.")[0] == "Long."


def test_a_table_is_read_like_any_other() -> None:
    head = "<tr><th>River<th>km"
    table = f"<table><caption>Rivers</caption>{head}<tr><td>Rhine<td><p>1230</p><tr><td>Old<td>10<sup>3</sup></table>"
    assert plain(table)[0] == "Rivers\n\nRiver | km\n\nRiver: Rhine; km: 1230\n\nRiver: Old; km: 10^3"
    merged = "<tr><td rowspan=2>Rhine<td>1230<tr><td>1233<tr><td colspan=2>Danube<td>x"
    assert plain(f"<table>{head}{merged}</table>")[0].split("\n\n")[1:] == [
        "River: Rhine; km: 1230", "River: Rhine; km: 1233", "River: Danube; x",
    ]  # fmt: skip
    layout = f"<table><tr><td><h2>Rivers</h2></td><td>Long.</td></tr><tr><td><table>{head}</table></td></tr></table>"
    assert plain(layout)[0] == "## Rivers\n\nLong.\n\nRiver | km"


def test_headings_have_their_level_and_lose_the_sign_of_their_link() -> None:
    page = '<main><h1>Rivers</h1><p>Long.</p><h2 id="r">Rhine<a href="#r">¶</a></h2><p>Wide.</p></main>'
    assert read("a.html", page).text == "# Rivers\n\nLong.\n\n## Rhine\n\nWide."
    text, headings, _ = outline(parsed(page))
    assert [(each.level, each.text, each.id) for each in headings] == [(1, "Rivers", ""), (2, "Rhine", "r")]
    assert all(text[each.at :].lstrip().startswith("#") for each in headings)


@pytest.mark.parametrize(
    "tag",
    [
        "<p " + " ".join(f"a{n}=1" for n in range(60_000)) + ">",
        "<p " + "\n".join(f"a{n}" for n in range(60_000)) + "/>",
        '<!-- " --><p ' + "".join(f"a{n}='>'" for n in range(60_000)) + ">",
    ],
)
def test_a_tag_of_many_attributes_is_refused_before_it_costs_time(tag: str) -> None:
    for name, content in (("a.html", f"{tag}text"), ("a.eml", f"Subject: s\nContent-Type: text/html\n\n{tag}text")):
        with pytest.raises(Unreadable, match="1,000 attributes"):
            read(name, content)
    few = " ".join(f"a{n}=1" for n in range(900))
    assert read("a.html", f"<p {few}>text").text == "text"
