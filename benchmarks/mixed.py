"""A folder of mixed files from a seed: what a person's documents look like in kinds, sizes and flaws.

Texts are drawn from a pool of paragraphs; each file has words of its own. Pages of PDFs place every word with its
kerning, as typesetters write them. Pictures in PDFs and in Office files are random bytes, which nothing compresses.
"""

from __future__ import annotations

import json
import random
import zlib
from collections.abc import Callable, Iterator
from io import BytesIO
from itertools import accumulate
from pathlib import Path

from tests.retrieval import files as made

VOCABULARY, PARAGRAPHS = 40_000, 3_000
HUGE = 160 << 20
"""Bytes that one file announces. It is sparse, so the disk holds none of them, and too large to be read."""
KINDS: dict[str, tuple[float, float]] = {  # shares of the files and of the bytes, in per cent
    "md": (14, 4), "txt": (10, 6), "html": (12, 8), "pdf": (15, 40), "docx": (11, 12), "xlsx": (4, 3), "csv": (5, 7),
    "json": (6, 4), "eml": (8, 3), "mbox": (0.5, 4), "ipynb": (3, 3), "py": (8, 2), "jpg": (3, 4),
}  # fmt: skip
"""A few more are damaged or encrypted, one is large, and one is too large to be read."""
_FOLDERS = 40  # files to a folder
_PAGE = 2_800  # characters of text on a page
_BYTES_OF_PAGE = 25_000  # of a PDF's file, with its share of pictures and fonts
_PICTURES = 0.6  # of the bytes of a Word file


class Folder:
    """Makes files of one seed: `make` writes the folder, `change` writes some of its files again."""

    def __init__(self, root: Path, seed: int) -> None:
        self.root = root
        self._draw = random.Random(seed)
        words = [
            "".join(self._draw.choices("aeiourstlnmdcpgbfh", k=self._draw.randint(2, 11))) for _ in range(VOCABULARY)
        ]
        weights = list(accumulate(1 / rank for rank in range(1, VOCABULARY + 1)))
        self._words = words
        self._pool = [
            " ".join(f"{' '.join(sentence).capitalize()}." for sentence in self._sentences(words, weights))
            for _ in range(PARAGRAPHS)
        ]
        self._picture = self._draw.randbytes(8 << 20)

    def _sentences(self, words: list[str], weights: list[float]) -> Iterator[list[str]]:
        for _ in range(self._draw.randint(2, 7)):
            yield self._draw.choices(words, cum_weights=weights, k=self._draw.randint(6, 24))

    def make(self, count: int, size: int) -> int:
        """Write `count` files of about `size` bytes in all. Returns the bytes on the disk."""
        kinds = [kind for kind, (share, _) in KINDS.items() for _ in range(round((count - 6) * share / 100))]
        kinds = [*["damaged", "encrypted"] * max(1, count // 400), *kinds][: max(1, count - 2)]
        self._draw.shuffle(kinds)
        for number, kind in enumerate(kinds):
            share, of_bytes = KINDS.get(kind, (1, 1))
            usual = size * of_bytes / (count * share)
            self._write(number, kind, int(usual * self._draw.lognormvariate(-0.32, 0.8)))
        self._write(count, "txt", size // 50)  # one file of two per cent of all
        with (self.root / "huge.txt").open("wb") as huge:
            huge.truncate(HUGE)
        return sum(file.stat().st_blocks * 512 for file in self.root.rglob("*") if file.is_file())

    def change(self, count: int) -> None:
        """Write some text files again with other words."""
        chosen = sorted(self.root.rglob("*.md"))
        for file in self._draw.sample(chosen, min(count, len(chosen))):
            file.write_bytes(_MAKERS["md"](self, file.stat().st_size))

    def _write(self, number: int, kind: str, size: int) -> None:
        folder = self.root / f"part {number // _FOLDERS:03d}"
        folder.mkdir(exist_ok=True)
        suffix = {"damaged": "pdf", "encrypted": "docx"}.get(kind, kind)
        (folder / f"{number:06d} {self._draw.choice(self._words)}.{suffix}").write_bytes(_MAKERS[kind](self, size))

    def text(self, size: int) -> str:
        """Paragraphs of about `size` characters in all, each with a word of its own."""
        return "\n\n".join(self.paragraphs(size))

    def paragraphs(self, size: int) -> Iterator[str]:
        """Paragraphs of about `size` characters in all."""
        left = size
        while left > 0:
            own = f"{self._draw.choice(self._words)}{self._draw.randrange(10_000)}"
            paragraph = f"{self._draw.choice(self._pool)} {own}"[: max(left, 40)]
            left -= len(paragraph) + 2
            yield paragraph

    def row(self, columns: int) -> list[str]:
        """Cells of a table: a word, then numbers and words in turn."""
        draw = self._draw
        return [draw.choice(self._words) if n % 2 == 0 else str(draw.randrange(100_000)) for n in range(columns)]

    def picture(self, size: int) -> bytes:
        """Bytes that do not compress."""
        start = self._draw.randrange(len(self._picture) // 2)
        return (self._picture[start:] * (size // len(self._picture) + 2))[:size]

    def heading(self) -> str:
        """A few words."""
        return " ".join(self._draw.choices(self._words, k=3)).title()


def _markdown(folder: Folder, size: int) -> bytes:
    said = [f"# {folder.heading()}"]
    for number, paragraph in enumerate(folder.paragraphs(int(size * 0.8))):
        if number % 5 == 0:
            said.append(f"## {folder.heading()}")
        if number % 9 == 4:
            said.append("```python\n" + _code(folder, 300) + "\n```")
        if number % 13 == 6:
            said.append("\n".join(f"| {' | '.join(row)} |" for row in [*[folder.row(4)], ["---"] * 4, folder.row(4)]))
        said.append(paragraph)
    return "\n\n".join(said).encode()


def _code(folder: Folder, size: int) -> str:
    said, length = [], 0
    while length < size:
        a, b, c = folder.row(5)[::2]
        length += 150
        said.append(f'def {a}({b}, {c}):\n    """{folder.heading()}."""\n    for each in {b}:\n        {c} += each * 2')
        said.append(f"    if {c} > 100:\n        return {b}.{a}({c}[0])\n    return None\n")
    return "\n".join(said)


def _html(folder: Folder, size: int) -> bytes:
    links = "".join(f'<li><a href="/{word}">{word}</a></li>' for word in folder.row(40)[::2])
    parts = "".join(
        f"{f'<h2>{folder.heading()}</h2>' if n % 4 == 0 else ''}<p class='body text'>{paragraph}</p>"
        for n, paragraph in enumerate(folder.paragraphs(int(size * 0.9)))
    )
    return (
        f"<!doctype html><html><head><title>{folder.heading()}</title><style>p {{margin: 0}}</style></head><body>"
        f"<nav><ul>{links}</ul></nav><article><h1>{folder.heading()}</h1>{parts}</article></body></html>"
    ).encode()


def _pdf(folder: Folder, size: int) -> bytes:
    text = folder.text(size * _PAGE // _BYTES_OF_PAGE)
    pages = [text[at : at + _PAGE] for at in range(0, len(text), _PAGE)]
    picture = folder.picture(size - len(text))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        f"<</Type/Pages/Count {len(pages)}/Kids[{' '.join(f'{5 + 2 * n} 0 R' for n in range(len(pages)))}]>>".encode(),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>",
        _stream(b"/Type/XObject/Subtype/Image/Width 100/Height 100/ColorSpace/DeviceGray/BitsPerComponent 8", picture),
    ]
    for n, page in enumerate(pages):
        objects.append(
            f"<</Type/Page/Parent 2 0 R/MediaBox[0 0 595 842]/Contents {6 + 2 * n} 0 R"
            "/Resources<</Font<</F1 3 0 R>>/XObject<</I 4 0 R>>>>>>".encode()
        )
        objects.append(_stream(b"/Filter/FlateDecode", zlib.compress(_set(page), 1)))
    out, places = BytesIO(b"%PDF-1.5\n"), []
    out.seek(0, 2)
    for n, each in enumerate(objects, start=1):
        places.append(out.tell())
        out.write(b"%d 0 obj\n%b\nendobj\n" % (n, each))
    start = out.tell()
    table = "".join(f"{place:010d} 00000 n \n" for place in places)
    out.write(f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n{table}".encode())
    out.write(f"trailer<</Size {len(objects) + 1}/Root 1 0 R>>\nstartxref\n{start}\n%%EOF".encode())
    return out.getvalue()


def _stream(entries: bytes, content: bytes) -> bytes:
    return b"<<%b/Length %d>>stream\n%b\nendstream" % (entries, len(content), content)


def _set(page: str) -> bytes:
    """The operators that put a page's text down, a line of 80 characters at a time, each word with its kerning."""
    lines = ["q 100 0 0 100 0 0 cm /I Do Q BT /F1 10 Tf 50 800 Td 12 TL"]
    for at in range(0, len(page), 80):
        words = "".join(f"({word})-{250 + len(word)}" for word in page[at : at + 80].split())
        lines.append(f"[{words}] TJ T*")
    return ("\n".join(lines) + "\nET").encode()


def _docx(folder: Folder, size: int) -> bytes:
    body = "".join(
        (made.paragraph(folder.heading(), "berschrift1") if n % 6 == 0 else "")
        + (made.table(folder.row(4), folder.row(4)) if n % 11 == 5 else "")
        + made.paragraph(paragraph)
        for n, paragraph in enumerate(folder.paragraphs(int(size * (1 - _PICTURES) / 0.5)))
    )
    return made.docx(body, **{"word__media__image.png": folder.picture(int(size * _PICTURES))})


def _xlsx(folder: Folder, size: int) -> bytes:
    def cell(said: str) -> str:
        return f"<c><v>{said}</v></c>" if said.isdigit() else f'<c t="inlineStr"><is><t>{said}</t></is></c>'

    rows = [f"<row>{''.join(map(cell, folder.row(8)))}</row>" for _ in range(max(2, size // 75))]
    return made.xlsx({"Sheet": "".join(rows)})


def _csv(folder: Folder, size: int) -> bytes:
    names = ["name", "count", "place", "price", "colour", "stock", "note", "code"]
    return "\n".join(",".join(row) for row in [names, *(folder.row(8) for _ in range(max(2, size // 50)))]).encode()


def _json(folder: Folder, size: int) -> bytes:
    names = ("name", "count", "place", "price", "colour", "stock")
    entries = [
        {**dict(zip(names, folder.row(6), strict=True)), "note": paragraph} for paragraph in folder.paragraphs(size)
    ]
    return json.dumps(entries, indent=1).encode()


def _mail(folder: Folder, size: int) -> bytes:
    return made.mail(folder.heading(), folder.text(size), id_="-".join(folder.row(6)))


def _mailbox(folder: Folder, size: int) -> bytes:
    return made.mbox(*(_mail(folder, 4_000) for _ in range(max(1, size // 4_500))))


def _notebook(folder: Folder, size: int) -> bytes:
    cells = [("markdown", f"# {folder.heading()}")]
    for paragraph in folder.paragraphs(size // 3):
        cells += [("markdown", paragraph), ("code", _code(folder, 300))]
    return made.notebook(*cells).encode()


def _damaged(folder: Folder, size: int) -> bytes:
    return _pdf(folder, size)[: size // 3]


def _encrypted(folder: Folder, size: int) -> bytes:
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + "EncryptedPackage".encode("utf-16-le") + folder.picture(size)


_MAKERS: dict[str, Callable[[Folder, int], bytes]] = {
    "md": _markdown, "txt": lambda folder, size: folder.text(size).encode(), "html": _html, "pdf": _pdf, "docx": _docx,
    "xlsx": _xlsx, "csv": _csv, "json": _json, "eml": _mail, "mbox": _mailbox, "ipynb": _notebook,
    "py": lambda folder, size: _code(folder, size).encode(), "jpg": lambda folder, size: folder.picture(size),
    "damaged": _damaged, "encrypted": _encrypted,
}  # fmt: skip
