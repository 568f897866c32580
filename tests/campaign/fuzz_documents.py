"""Documents of every type with bytes that are not what their names say: read, or left out; the others stay found."""

from __future__ import annotations

import asyncio
import gzip
import json
import random
import zipfile
from io import BytesIO
from pathlib import Path
from typing import Any

from reground.core.errors import DataError
from reground.retrieval.filetypes import HTML_SUFFIXES, MARKDOWN_SUFFIXES, PDF_SUFFIXES
from reground.retrieval.index import build_index, open_index
from reground.retrieval.settings import IndexSettings
from tests.campaign import fuzz_bad as bad
from tests.campaign.trial import Trial
from tests.retrieval import files

_MARKDOWN = b"---\ntitle: Rivers\n---\n# Danube\n\nThe Danube is **2850 km** long.\n\n```\ncode # x\n```\n\n| a | b |\n|---|---|\n"
_HTML = (
    b'<!doctype html><html><head><meta charset="utf-8"><title>Danube</title><script>x</script></head>'
    b"<body><h1>Danube</h1><p>The Danube is 2850 km long.<table><tr><td>&amp;&#8364;&#xD800;</td></tr></table></body></html>"
)
_PDF = (
    b"%PDF-1.4\n1 0 obj<</Type/Catalog/Pages 2 0 R>>endobj\n2 0 obj<</Type/Pages/Kids[3 0 R]/Count 1>>endobj\n"
    b"3 0 obj<</Type/Page/Parent 2 0 R/MediaBox[0 0 200 200]/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>endobj\n"
    b"4 0 obj<</Length 44>>stream\nBT /F1 12 Tf 10 100 Td (The Danube is long) Tj ET\nendstream endobj\n"
    b"5 0 obj<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>endobj\ntrailer<</Root 1 0 R/Size 6>>\nstartxref\n0\n%%EOF\n"
)
_TEXT = "Die Donau ist 2850 km lang. Дунай течёт через Вену. 多瑙河。 Größe, déjà vu."
_RECORDS: list[dict[str, Any]] = [
    {"id": "a", "title": "Danube", "text": "The Danube is 2850 km long.", "url": "http://x"},
    {"_id": 5, "contents": '"Rhine"\nThe Rhine is 1230 km long.', "metadata": {"a": [1]}},
]
_OTHERS = {
    ".docx": files.docx(files.paragraph("The Danube is long.") + files.table(("River", "km"), ("Danube", "2850"))),
    ".pptx": files.pptx([("Danube", "long"), ("Rhine",)], notes="shorter"),
    ".xlsx": files.xlsx({"S": '<row><c r="A1" t="s"><v>0</v></c><c r="B1" s="1"><v>45000</v></c></row>'}, ["Danube"]),
    ".odt": files.open_document("<office:text><text:p>The Danube is long.</text:p></office:text>"),
    ".epub": files.epub({"a": "<p>The Danube</p>", "b": "<p>The Rhine</p>"}, title="Rivers"),
    ".eml": files.mail("Danube", _TEXT, html="<p>long</p>", attached="map.pdf"),
    ".mbox": files.mbox(files.mail("Danube", _TEXT, id_="1@x"), files.mail("Rhine", "short")),
    ".csv": b'River,km\n"Danube, the long",2850\n',
    ".json": json.dumps(_RECORDS).encode(),
    ".ipynb": files.notebook(("markdown", "# Danube"), ("code", "x = 2850")).encode(),
}
_ENCODINGS = ("utf-8", "utf-16", "utf-16-le", "utf-32", "cp1251", "gb18030", "utf-8-sig")
_NAMES = ("bad", "b\u202ead", "-x", "a b", "é", "x" * 100, "b\udcffd", "..b", "b\nad")


def _text(chance: random.Random) -> bytes:
    return _TEXT.encode(chance.choice(_ENCODINGS), "replace")


def _jsonl(chance: random.Random) -> bytes:
    lines = [json.dumps(record).encode() for record in _RECORDS]
    at = chance.randrange(len(lines))
    return b"\n".join([*lines[:at], bad.line(_RECORDS[at], chance), *lines[at + 1 :]]) + b"\n"


def attempt(number: int, folder: Path) -> list[Trial]:
    """A corpus of one good document and one spoiled one, indexed and searched."""
    chance = random.Random(f"documents {number}")
    suffix = sorted({*MARKDOWN_SUFFIXES, *HTML_SUFFIXES, *PDF_SUFFIXES, ".txt", ".jsonl", ".jsonl.gz", *_OTHERS})
    end = suffix[number % len(suffix)]
    content = _content(end, chance)
    docs = folder / "docs"
    docs.mkdir()
    (docs / "good.md").write_text("# Good\n\nThe Thames flows through London.\n")
    (docs / f"{chance.choice(_NAMES)}{end}").write_bytes(content)
    settings = IndexSettings(
        chunk_tokens=chance.choice((16, 2000)),
        overlap=chance.choice((0, 3)),
        language=chance.choice(("en", "zh", "de")),
    )
    what = f"number {number}, {end}: {bad.short(content)}"
    try:
        build_index(docs, folder / "index", settings)
        found = asyncio.run(open_index(folder / "index").retrieve("Thames London", k=3))
    except DataError as error:
        named = ".jsonl" in end and str(docs) in str(error)
        return [Trial(f"A {end} file", named, f"{what}: {error}")]
    except Exception as error:
        return [Trial(f"A {end} file", False, f"{what}: {bad.uncaught(error)}")]
    kept = any("Thames" in passage.text for passage in found)
    return [Trial(f"A {end} file", kept, f"{what}: the good document is not found")]


def _content(end: str, chance: random.Random) -> bytes:
    if end.startswith(".jsonl"):
        lines = _jsonl(chance)
        if end == ".jsonl":
            return lines
        return gzip.compress(lines) if chance.random() < 0.7 else bad.data(gzip.compress(lines), chance)
    kinds = ((MARKDOWN_SUFFIXES, _MARKDOWN), (HTML_SUFFIXES, _HTML), (PDF_SUFFIXES, _PDF))
    good = next((content for suffixes, content in kinds if end in suffixes), _OTHERS.get(end, b""))
    if good.startswith(b"PK") and chance.random() < 0.5:
        return _spoiled_part(good, chance)
    for _ in range(chance.choice((1, 1, 3))):
        good = bad.data(good or _text(chance), chance)
    return good


def _spoiled_part(good: bytes, chance: random.Random) -> bytes:
    """An archive that is whole, with a part that is not."""
    with zipfile.ZipFile(BytesIO(good)) as archive:
        parts = {name: archive.read(name) for name in archive.namelist()}
    name = chance.choice(sorted(parts))
    return files.zipped(parts | {name: bad.data(parts[name], chance)})
