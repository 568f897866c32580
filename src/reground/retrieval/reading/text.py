"""Files of plain text: as they are, Markdown, CSV and TSV, JSON and notebooks.

Markdown has its title in the front matter or in the first heading. Each row of a table gets the names of its columns,
JSON becomes lines and rows of `key: value`, and notebooks are read without what their code printed.
"""

from __future__ import annotations

import csv
import json
import re
import tomllib
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from io import StringIO
from itertools import chain, islice, pairwise
from typing import Any

from reground.retrieval.encodings import Unreadable, decode
from reground.retrieval.reading.result import Circumstances, Heading, Placed, Read, Table, Text, record

_KEY = re.compile(r"""(?:[\w@$/.-]{1,100}|"[^"\n]{0,99}"|'[^'\n]{0,99}')\s*+:(?:\s|$)""")
_TITLE_WITHIN, _LONGEST_FRONT = 10_000, 100_000  # characters
_LEAST_RULE = 3
_DEEPEST_HEADING = 9
_RULE = re.compile(r"([=\-~^\"'`#*+:.<>_])\1{2,200}+")
_ASCIIDOC = re.compile(r"[=#][ \t]([^\n]{1,300})")
_ORG = re.compile(r"(?:#\+title:|\*[ \t])[ \t]{0,9}([^\n]{1,300})", re.IGNORECASE)
_TEX = re.compile(
    r"\\(?:title|chapter|section)\*?\s{0,9}(?:\[[^\]]{0,200}\])?\s{0,9}\{((?:[^{}]|\{[^{}]{0,300}\}){1,300}+)\}"
)
_TEX_REMARK = re.compile(r"(?<!\\)%[^\n]*")
_TEX_COMMAND = re.compile(r"\\\\|\\[A-Za-z]{1,50}+\s?|[{}~]")
_HEADING = re.compile(r" {0,3}(?:(#{1,6})[ \t](.*)|<h([1-6])\b[^>\n]{0,200}>([^\n]{1,300}?)</h)")
_LINKED = re.compile(
    r"!\[[^\]\n]{0,200}\]\([^)\n]{0,500}\)|\[([^\]\n]{1,200})\]\([^)\n]{0,500}\)|\{[#.][^{}\n]{0,99}\}\s*\Z"
)
_TAG = re.compile(r"<[^<>\n]{0,300}>")


def read_plain(content: bytes, around: Circumstances, *, markup: bool = False) -> Read:
    """A text as it is; markup (XML) in the encoding that it declares."""
    return Read("", *decode(content, markup=markup))


_DOTTED = re.compile(
    r"^\.\.(?:$|[ \t]++(?!\[|_|\||[\w+.-]{1,40}(?::[\w+.-]{1,40})?::)[^\n]*+(?:\n(?:[ \t]++\S[^\n]*+|(?=\n[ \t])))*+)",
    re.MULTILINE,
)
_SLASHED = re.compile(
    r"^(?P<kept>-{4,99}|\.{4,99}|```)[ \t\r]*+$(?s:.*?)(?:^(?P=kept)[ \t\r]*+$|\Z)"
    r"|^/{4}[ \t\r]*+$(?s:.*?)(?:^/{4}[ \t\r]*+$|\Z)|^//(?!/)[^\n]*+",
    re.MULTILINE,
)
_HASHED = re.compile(
    r"^[ \t]*+#\+begin_(?P<kept>src|example)(?s:.*?)(?:^[ \t]*+#\+end_|\Z)"
    r"|^[ \t]*+#(?:\+begin_comment(?s:.*?)(?:^[ \t]*+#\+end_comment|\Z)|[ \t][^\n]*+|$)",
    re.MULTILINE | re.IGNORECASE,
)
"""The remarks of reStructuredText, AsciiDoc and Org, and the code in which they are none."""


def _without(remark: re.Match[str]) -> str:
    """The lines of a remark without what they hold; code as it is."""
    return remark[0] if remark.lastgroup else "\n" * remark[0].count("\n")


def read_structured(
    content: bytes, around: Circumstances, mark: re.Pattern[str] | None = None, remark: re.Pattern[str] = _DOTTED
) -> Read:
    """A text without remarks, with the title that a pattern finds near its beginning at a line, or that a rule
    underlines. What it defines stands where it is named, as {version} of AsciiDoc, and the rows of tables have the
    names of columns."""
    text, guessed = decode(content)
    text = remark.sub(_without, text)
    if defined := dict(_DEFINED.findall(text)):
        text = _DEFINED_NAME.sub(lambda match: defined.get(match[1], match[0]), text, count=_MOST_NAMED)
    text = _TABLE.sub(_with_names, text)
    beginning = text[:_TITLE_WITHIN]
    found = ((start, match[1]) for start, line in _lines(beginning) if mark and (match := mark.match(line.strip())))
    titles = [*islice(found, 1), *((each.at, each.text) for each in islice(underlined(beginning), 1))]
    return Read(min(titles, default=(0, ""))[1].strip(" \t\r\n="), text, guessed)


_DEFINED = re.compile(r"^:([\w-]{1,60}):[ \t]++([^\n]{1,200}+)$", re.MULTILINE)
_DEFINED_NAME, _MOST_NAMED = re.compile(r"\{([\w-]{1,60})\}"), 100_000
_TABLE = re.compile(  # a list-table or one between rules of reStructuredText, or one of AsciiDoc under names
    r"^(?P<indent>[ \t]{0,40}+)(?:\.\. (?:list|(?P<csv>csv))-table::[^\n]*+\n"
    r"(?P<listed>(?:[ \t\r]*+\n|(?P=indent)[ \t]++[^\n]++\n?+)++)"
    r"|(?P<rule>=++(?: ++=++)++)[ \r]*+\n(?:(?P=indent)(?!=)[^\n]++\n)++"
    r"(?P=indent)=[= \r]*+\n(?:(?P=indent)(?!=)[^\n]++\n)++(?P=indent)=[= \r]*+$"
    r"|(?<![ \t])(?P<commas>\[[^\]\n]{0,99}csv[^\]\n]{0,99}\][ \t\r]*+\n\|===|,===)[ \t\r]*+\n"
    r"(?:(?![|,]===)[^\n]*+\n)++[|,]==="
    r"|\\begin\{(?P<tex>tabular[xy*]?|longtable)\}(?:[^\\]|\\(?!(?:begin|end)\{(?:tabular|longtable)))*+\\end\{(?P=tex)\}"
    r"|(?<![ \t])(?P<bars>\|===)[ \t\r]*+\n(?P<head>(?:\|[^|\n]++){1,50}+)\n(?:(?!\|===)[^\n]*+\n)*+\|===[ \t\r]*+$)",
    re.MULTILINE,
)
_VALUES = re.compile(r"^[ \t]*+(?::header:)?+(?!\.\.|:[\w-]++:|[|,]===|\[[^\]\n]*csv)[ \t]*+(\S[^\n]{0,9999}+)$", re.M)
_TEX_RULE = re.compile(
    r"\\(?:begin\{(?:tabular|longtable)[^{}]*\}(?:\[[^\]\n]*\])?(?:\{(?:[^{}]|\{[^{}\n]*\})*\}){1,2}|end\{[^{}\n]*\}"
    r"|[a-z]{0,9}(?:line|rule)\b|addlinespace|end(?:first)?(?:head|foot))(?:[\[({][\w.-]{1,20}[\])}])*+"
)
_TEX_ROW = re.compile(r"((?:[^\\]|\\(?!\\))++)(?:\\\\\*?(?:\[[^\]\n]{0,20}+\])?|\Z)")
_TEX_WIDE = re.compile(r"\\multicolumn\s*+\{(\d{1,2})\}\s*+\{[^{}]*+\}\s*+\{([^{}]*+)\}")
_LISTED = re.compile(r"^[ \t]*+\*[ \t]++-[^\n]*+(?:\n(?![ \t]*+\*[ \t]++-)[ \t]*+\S[^\n]*+)*+", re.MULTILINE)
_DASH = re.compile(r"^[ \t]*+(?:\*[ \t]++)?+-(?:[ \t]++|$)", re.MULTILINE)
_BAR = re.compile(r"(?<!\\)\|")


def _with_names(table: re.Match[str]) -> str:
    """A table whose rows say `column: value`, each on the line where it began; other lines stay as they are."""
    source = _TEX_RULE.sub("", table[0]) if table["tex"] else table[0]
    lines, text, number, before = source.split("\n"), Text(), 0, 0
    named, said = Table(text), list[Placed]()
    for start, end, cells in _rows(table, source):
        number, before = number + source.count("\n", before, start), start
        count = source.count("\n", start, end) + 1
        lines[number : number + count] = [""] * count
        said += named.lines([cell.replace("\\|", "|") for cell in cells], number)
    for line in [*said, *named.end()]:
        lines[int(line.place.removeprefix("row "))] = line
    return table[0] if text.partly else "\n".join(lines)


def _rows(table: re.Match[str], source: str) -> Iterator[tuple[int, int, list[str]]]:
    """From where to where the rows go, and their cells; none where there are no names."""
    indent, row, bound, count = table["indent"], _LISTED, _DASH, 0
    if table["rule"]:
        row = re.compile(rf"^{indent}(?!=)\S[^\n]*+(?:\n{indent}[ \t][^\n]*+)*+", re.MULTILINE)
    elif table["bars"]:
        row, bound = re.compile(rf"((?:\|(?!===)(?:[^|\\]|\\.)*+){{{table['head'].count('|')}}})"), _BAR
    elif table["tex"] or table["csv"] or table["commas"]:
        row = _TEX_ROW if table["tex"] else _VALUES
    edges = [len(indent) + match.start() for match in re.finditer("=+", table["rule"] or "")]
    has_names = table["csv"] or not table["listed"] or ":header-rows:" in table["listed"]
    for match in row.finditer(source) if has_names else ():
        if table["tex"]:
            cells = _TEX_WIDE.sub(lambda wide: wide[2] + "&" * (int(wide[1]) - 1), match[1]).split("&")
        elif row is _VALUES:
            cells = next(csv.reader([match[1]], skipinitialspace=True))
        else:
            lines = match[0].split("\n")
            columns = (" ".join(line[start:end] for line in lines) for start, end in pairwise([*edges, None]))
            cells = list(columns) if edges else bound.split(match[0])[1:]
            count = count or len(cells)
            if len(cells) != count:
                continue
        yield match.end(row.groups) - len(match[row.groups].lstrip()), len(match[0].rstrip()) + match.start(), cells


def underlined(text: str, begins: int = 0) -> Iterator[Heading]:
    """The headings of reStructuredText. The level of a rule is told by which came before it; one above and below the
    text is another than one below."""
    rules: list[str] = []
    above, before = "", (begins, "")
    for start, line in _lines(text, begins):
        line = line.strip()
        is_rule = before[1][:1].isalnum() and _RULE.fullmatch(line) and len(line) >= min(len(before[1]), _LEAST_RULE)
        if is_rule and above in ("", line):
            rule = line[:1] + above[:1]
            rules += [] if rule in rules else [rule]
            yield Heading(before[0], rules.index(rule) + 1, before[1])
        above, before = before[1], (start, line)


def marked(text: str, begins: int = 0, *, mark: str) -> Iterator[Heading]:
    """The headings of AsciiDoc (=) and Org (*), whose levels are the number of marks."""
    for start, line in _lines(text, begins):
        words = line.lstrip(mark)
        level = len(line) - len(words)
        if 0 < level <= _DEEPEST_HEADING and words[:1] in (" ", "\t") and words.strip():
            yield Heading(start, level, words.strip())


read_markup = partial(read_plain, markup=True)
read_asciidoc = partial(read_structured, mark=_ASCIIDOC, remark=_SLASHED)
read_org = partial(read_structured, mark=_ORG, remark=_HASHED)


def read_tex(content: bytes, around: Circumstances) -> Read:
    """TeX with its title or first heading, amounts and rows as they are printed, and without remarks."""
    text, guessed = decode(content)
    match = _TEX.search(_TEX_REMARK.sub("", text[:_TITLE_WITHIN]))
    text = _TEX_KEPT.sub(_shielded, text)
    for pattern, shown in _TEX_SHOWN:
        text = pattern.sub(shown, text)
    text = _TABLE.sub(_with_names, text).translate(_UNSHIELDED)
    return Read(" ".join(_TEX_COMMAND.sub(" ", match[1]).split()) if match else "", text, guessed)


_SHIELDED = {ord(sign): 0x10F700 + ord(sign) for sign in "\\{}$%&#_~-"}
_UNSHIELDED = {shield: sign for sign, shield in _SHIELDED.items()}
"""Signs that code and escapes mean as they are, and what stands for them meanwhile."""
_TEX_KEPT = re.compile(
    r"\\begin\{(?P<kept>verbatim|lstlisting|minted)\b(?s:.*?)(?:\\end\{(?P=kept)|\Z)|\\(?P<sign>[$%&#_{}])|\\\\|%[^\n]*+"
    r"|(?P<inline>\\(?:url|href|path)\{[^{}\n]{0,999}+"
    r"|\\(?:verb\*?|lstinline)(?P<mark>[^\w\s*{[])[^\n]{0,300}?(?P=mark))"
)
_TEX_SHOWN = [
    (re.compile(pattern, re.MULTILINE), shown)
    for pattern, shown in (
        (r"\$|\\label\{[^{}\n]{0,200}+\}", ""),
        (r"(?<!\\)\\,", "\u2009"), (r"~|(?<!\\)\\[;: ]", " "), (r"\^\{(\w{1,20}+)\}", r"^\1"),
        (r"(?<=[{a-z])\\([a-z]{1,20}+)(?=[\\}])", r" \1"), (r"\\ang\{([^{}]{1,99}+)\}", r"\1°"),
        (r"\\(?:SI|qty)(?:\[[^\]\n]{0,99}\])?\{([^{}]{1,99}+)\}\{ ?([^{}]{1,99}+)\}", r"\1 \2"),
        (r"\\(?:SI|qty)range\{([^{}]{1,99}+)\}\{([^{}]{1,99}+)\}\{ ?([^{}]{1,99}+)\}", r"\1 to \2 \3"),
        (r"(?<![A-Za-z\]}*)^_])\{([^{}\\\n]{0,200}+)\}", r"\1"),
        *[(r"\\(?:emph|num|text[a-z]{2,9}|multirow\{\d{1,2}\}\{[^{}]{0,20}\})\{([^{}]{0,999}+)\}", r"\1")] * 3,
        (r"\\footnote\{([^{}]{0,999}+)\}", r" (\1)"), (r"\\item\[([^\[\]\n]{1,99}+)\]", r"\1::"), (r"\\item\b", "-"),
        (r"^\\section\*?\{([^{}\n]{1,200}+)\}[ \t]*+$", r"## \1"),
        (r"^\\(?:sub)+section\*?\{([^{}\n]{1,200}+)\}[ \t]*+$", r"### \1"),
    )
]  # fmt: skip


def _shielded(match: re.Match[str]) -> str:
    shown = match[0] if match["kept"] or match["inline"] else match["sign"] or ""
    return shown.translate(_SHIELDED) or ("" if match[0][0] == "%" else match[0])


def read_markdown(content: bytes, around: Circumstances) -> Read:
    """The text without its front matter and without remarks."""
    text, guessed = decode(content)
    known, start = front_matter(text)
    text = _HTML_PART.sub(_shown_part, text[start:])
    return Read(_title(known, text), text, guessed, fields=known)


_HTML_PART = re.compile(
    r"^[ ]*+(?P<fence>```|~~~)(?s:.*?)(?:^[ ]*+(?P=fence)|\Z)|(?P<code>`++)(?:(?!(?P=code))[^\n]){0,300}+(?P=code)"
    r"|<!--(?P<remark>(?:[^-<]|-(?!->)|<(?!!--))*+)-->|^[ ]{0,3}<table\b(?:[^<]|<(?!/?table\b))*+</table>",
    re.MULTILINE | re.IGNORECASE,
)


def _shown_part(part: re.Match[str]) -> str:
    """The rows of a table of HTML as of a page, in as many lines as it had; as it is where it has fewer, as code is.
    Nothing is shown of a remark."""
    from reground.retrieval.reading.web import plain

    is_table = part.lastgroup is None
    rows = [row for row in (plain(part[0])[0] if is_table else "").split("\n") if row]
    left = part[0].count("\n") - len(rows) + is_table
    return "\n".join(rows) + "\n" * left if part.lastgroup == "remark" or (rows and left >= 0) else part[0]


def _title(known: Mapping[str, object], text: str) -> str:
    titles = (value for name, value in known.items() if name.lower() == "title" and isinstance(value, str))
    first = [(each.at, each.text) for each in islice(headings(text), 1)]
    first += [(match.start(), _TAG.sub("", match[1])) for match in islice(_SPREAD.finditer(text, 0, _TITLE_WITHIN), 1)]
    return next(chain(titles, _HEADED.findall(text[:300]), (words for _, words in sorted(first) if words.strip())), "")


_SPREAD = re.compile(r"^[ ]{0,3}<h1\b[^<>]{0,200}>((?:[^<]|<(?!/?h[1-6]\b)){1,2000}+)</h1", re.MULTILINE)
_HEADED = re.compile(r"\A\s{0,9}(?:%[ \t]++|[Tt]itle:[ \t]++)([^\n]++)")  # of Pandoc and MultiMarkdown


def front_matter(text: str) -> tuple[Mapping[str, object], int]:
    """What front matter says by names, in YAML, TOML or JSON, and where the text behind it begins. Lines that do not
    begin with a key are none: a text may begin with a rule, which looks the same."""
    match = _FRONT.match(text)
    lines = [line for line in match[2].splitlines() if line.strip() and line.strip()[0] != "#"] if match else []
    try:
        if match is None and text.startswith("{"):
            data, end = json.JSONDecoder().raw_decode(text[:_LONGEST_FRONT])
            is_front = text[end : end + 1] in ("\r", "\n") and text[end:].strip()
            return (data, end) if is_front else ({}, 0)
        if match is None or not lines or not (_KEY if match[1] == "---" else _TOML).match(lines[0]):
            return {}, 0
        return (_yaml(lines) if match[1] == "---" else tomllib.loads(match[2])), match.end()
    except (ValueError, RecursionError):  # it only looks like data
        return {}, match.end() if match else 0


_FRONT = re.compile(
    r"\A\ufeff?\s{0,99}^(---|\+\+\+)[ \t]*\r?\n(.{0,100000}?)^(?:\1|\.\.\.)[ \t]*\r?(?:\n|\Z)", re.DOTALL | re.MULTILINE
)
_TOML = re.compile(r"""\[|(?:[\w.-]{1,100}|"[^"\n]{0,99}")\s*+=""")
_MARKS = re.compile(r"\A[ \t]*+(?:-(?:[ \t]++|\Z))*+")
_PAIR = re.compile(r"""(["']?)([\w@$/.-]{1,100}(?: [\w@$/.-]{1,100}){0,9})\1[ \t]*+:(?:[ \t]++(.{0,1000})|[ \t]*+\Z)""")
_ITEM = re.compile(r"""[^\s,\]"'][^,\]]*+|"[^"]{0,99}+"|'[^']{0,99}+'""")


def _yaml(lines: Iterable[str]) -> dict[str, object]:
    """The texts by their keys, in a list where there are several; a key below another one is named as author.name."""
    known: dict[str, list[str]] = {}
    outer: list[tuple[int, str]] = []  # the keys that a line may stand below, with their columns
    left = deque(lines)
    while left:
        line = left.popleft()
        text = _MARKS.sub("", line)
        column = len(line) - len(text)
        while outer and outer[-1][0] >= column:
            outer.pop()
        keys, value = [key for _, key in outer], text.strip() if "-" in line[:column] else ""
        if (match := _PAIR.match(text)) and (keys or not column):
            keys, value = [*keys, match[2]], (match[3] or "").strip()
            if not outer:
                known.pop(match[2], None)  # the last counts
            if not value:
                outer.append((column, match[2]))
        if keys and value:
            known.setdefault(".".join(keys), []).extend(_texts(value, left, column))
    return {name: texts if len(texts) > 1 else texts[0] for name, texts in known.items() if texts}


def _texts(value: str, left: deque[str], column: int) -> list[str]:
    """The texts of a value that begins behind a key; takes the lines below it that belong to it."""
    below = []
    while value[0] in "|>[" and "]" not in value and left and not left[0][: column + 1].strip():
        below.append(left.popleft().strip())
    if value[0] in "|>":
        return [" ".join(below)]
    if value[0] == "[":
        return [_unquoted(each.strip()) for each in _ITEM.findall(" ".join([value[1:], *below]))]
    return [] if value.lower() in ("~", "null") else [_unquoted(value)]


_QUOTED = re.compile(r"""'((?:[^']|'')*+)|"((?:[^"\\]|\\.)*+)""")


def _unquoted(value: str) -> str:
    """A value of front matter without its quotes, and without a remark behind it."""
    match = _QUOTED.match(value)
    if match is None:
        return value.partition(" #")[0].strip()
    return match[2].replace('\\"', '"') if match[1] is None else match[1].replace("''", "'")


def headings(text: str, begins: int = 0) -> Iterator[Heading]:
    """The headings, `# so`, underlined with === or in HTML, from a character on. A # in code is a comment."""
    above, code = (0, ""), ""
    for start, line in _lines(text, begins):
        mark = line[:3]
        if mark in ("```", "~~~") and code in ("", mark):
            code = "" if code else mark
            above = (0, "")
        elif not code:
            underline = line.rstrip()
            if above[1][:1].strip() and underline and not underline.strip("="):
                yield Heading(above[0], 1, above[1].strip())
            elif (match := _HEADING.match(line)) and (words := (match[2] or _TAG.sub("", match[4] or "")).strip()):
                words = _LINKED.sub(r"\1", words).strip() or words
                closed = words.rstrip("#")
                level = len(match[1]) if match[1] else int(match[3])
                yield Heading(start, level, closed.rstrip() if closed[-1:] in (" ", "\t") else words)
            above = (start, line)


def _lines(text: str, start: int = 0) -> Iterator[tuple[int, str]]:
    """Where each line begins, and the line with its end; one at a time: a title is near the top of a large text."""
    while start < len(text):
        end = text.find("\n", start) + 1 or len(text)
        yield start, text[start:end]
        start = end


_NAMED = re.compile(r"sep=([,;\t|])\r?\n", re.IGNORECASE)  # the first line, by which a file tells Excel its mark
_END = ["end", "end"]  # a row put behind the last one, which comes back as it is unless a quote is open
_FIRST, _LINES = 100_000, 20  # characters and lines among which the mark is looked for


def read_delimited(content: bytes, around: Circumstances) -> Read:
    """Rows as `column: value`. What is no table, by an open quote or a field without end, is read as plain text."""
    source, guessed = decode(content)
    text = Text()
    try:
        Table(text).extend(enumerate(_table_rows(source, around), start=1))
    except csv.Error:
        return Read("", source, guessed)
    return text.read("", guessed)


def _table_rows(text: str, around: Circumstances) -> Iterator[list[str]]:
    """The rows of a table. Raises csv.Error at the end for an open quote, which swallows the rows behind it."""
    named = _NAMED.match(text)
    delimiter = named[1] if named else _delimiter(text)
    lines = StringIO(text[named.end() :] if named else text, newline="")
    row: list[str] = []
    for number, following in enumerate(csv.reader(chain(lines, [delimiter.join(_END)]), delimiter=delimiter)):
        if number % 1000 == 0:
            around.tick()
        if number:
            yield row
        row = following
    if row != _END:
        raise csv.Error("open quote")


def _delimiter(text: str) -> str:
    """The mark that most of the first lines hold equally often, outside of quotes, and the more often the better."""
    outside = "".join(text[:_FIRST].split('"')[::2])
    lines = [line for line in outside.splitlines() if line.strip()][:_LINES]

    def agreement(mark: str) -> tuple[int, int]:
        counts = Counter(number for line in lines if (number := line.count(mark)))
        return max(((times, number) for number, times in counts.items()), default=(0, 0))

    return max(",;\t|", key=agreement)


_DEEPEST = 8  # levels of nesting that become lines of their own; what is deeper stays JSON
_LONGEST_KEY = 200
_PARTING = re.compile(r"; |\n")


def read_json(content: bytes, around: Circumstances) -> Read:
    """A .json file as `key: value` lines, a paragraph for each top-level item; what is not JSON as the text it is."""
    text, guessed = decode(content)
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):  # with comments, many values in a row, nested without end
        return Read("", text, guessed)
    items = [{key: each} for key, each in value.items()] if isinstance(value, dict) else value
    items = items if isinstance(items, list) and items else [value]
    paragraphs = Text()
    lines = ((line, place > 0) for item in items for place, line in enumerate(json_lines(item)))
    for number, (line, goes_on) in enumerate(lines):
        if number % 1000 == 0:
            around.tick()
        if not paragraphs.add(line, goes_on=goes_on):
            break
    title = value.get("title", value.get("name")) if isinstance(value, dict) else ""
    return paragraphs.read(title if isinstance(title, str) else "", guessed)


def read_notebook(content: bytes, around: Circumstances) -> Read:
    """A .ipynb: its texts and its code, without the results of the code."""
    text, guessed = decode(content)
    try:
        notebook = json.loads(text)
    except (ValueError, RecursionError):
        raise Unreadable("is damaged: it is not a notebook") from None
    cells, title = Text(), ""
    for number, (kind, source) in enumerate(_cells(notebook), start=1):
        if kind in ("markdown", "raw"):
            title = title or _title(front_matter(source)[0], source)
        block = f"```\n{source}\n```" if kind == "code" and source.strip() else source
        if not cells.add(Placed(block, f"cell {number}")):
            break
    return cells.read(title, guessed)


def json_lines(value: Any, path: str = "", depth: int = 0) -> Iterator[str]:
    """The lines of a value behind the keys around it, as in `address > city: Vienna`, or their end. What an object
    holds in short is a row: `staff; name: Ada; age: 36`."""
    if isinstance(value, dict) and value and depth < _DEEPEST:
        row = {key: _scalar(each) for key, each in value.items() if not _is_nested(each)}
        row = {key: text for key, text in row.items() if len(text) < _LONGEST_KEY and not _PARTING.search(text)}
        if len(row) > 1:
            yield "; ".join(filter(None, [path, record(row, row.values())]))
        for key, each in value.items():
            if len(row) < 2 or key not in row:
                inner = f"{path} > {key[:_LONGEST_KEY]}".removeprefix(" > ")[-_LONGEST_KEY:]
                yield from json_lines(each, inner, depth + 1)
    elif isinstance(value, list) and depth < _DEEPEST and _is_nested(value):
        for each in value:
            yield from json_lines(each, path, depth + 1)
    else:
        yield f"{path}: {_scalar(value)}" if path else _scalar(value)


def _is_nested(value: Any) -> bool:
    return any(isinstance(each, dict | list) for each in value) if isinstance(value, list) else isinstance(value, dict)


def _scalar(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, list) and not _is_nested(value):
        return ", ".join(map(_scalar, value))
    try:
        return json.dumps(value, ensure_ascii=False)
    except (ValueError, RecursionError):
        return "..."


def _cells(notebook: Any) -> Iterator[tuple[str, str]]:
    """Kind and text of every cell, of format 4 and of older ones."""
    if not isinstance(notebook, dict):
        raise Unreadable("is damaged: it is not a notebook")
    sheets = notebook.get("worksheets")
    for sheet in [notebook, *(sheets if isinstance(sheets, list) else [])]:
        cells = sheet.get("cells") if isinstance(sheet, dict) else None
        for cell in cells if isinstance(cells, list) else []:
            if isinstance(cell, dict):
                source = cell.get("source", cell.get("input", ""))
                lines = source if isinstance(source, list) else [source]
                yield str(cell.get("cell_type")), "".join(line for line in lines if isinstance(line, str))
