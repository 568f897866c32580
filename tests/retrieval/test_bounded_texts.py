"""Data and mail whose texts would swell, or take the square of their length, are read within bounds."""

from __future__ import annotations

import json

import pytest

from reground.retrieval.encodings import Unreadable, text_encoding
from reground.retrieval.reading.mail import read_mail
from reground.retrieval.reading.result import MOST_TEXT, PLAIN, Circumstances, Text
from reground.retrieval.reading.text import read_json

KEY = "k" * 200


def test_of_data_beyond_the_limit_its_beginning_is_kept() -> None:
    """One top-level item, of two megabytes, whose lines repeat a long key."""
    ticks: list[float] = []
    content = f'{{"{KEY}": [{", ".join(["[]"] * 600_000)}, {{}}]}}'.encode()
    read = read_json(content, Circumstances(lambda share=0.0, /: ticks.append(share)))
    assert len(read.text) == MOST_TEXT
    assert read.partly == "only its first 100 million characters were read"
    assert len(ticks) > 400


def test_a_path_of_keys_is_cut_altogether() -> None:
    text = read_json(json.dumps({KEY: {KEY: {"city": "Vienna", "river": ["Danube"]}}}).encode(), PLAIN).text
    assert text == f"{KEY[:195]}.city: Vienna\n{KEY[:194]}.river: Danube"


def test_a_block_that_does_not_fit_is_kept_to_its_beginning() -> None:
    text = Text()
    assert text.add("a") and text.add("b", goes_on=True) and text.add("c")
    assert str(text) == "a\nb\n\nc"
    assert not text.add("d" * MOST_TEXT)
    assert not text.add("e")
    assert (len(str(text)), str(text)[-1]) == (MOST_TEXT, "d")


@pytest.mark.parametrize(
    ("name", "known"),
    [
        ("ISO-8859-1", "cp1252"), ("gb2312", "gb18030"), ("utf-8", "utf-8"), ("utf-16", "utf-16"), ("koi8-r", "koi8-r"),
        ("punycode", ""), ("idna", ""), ("utf-7", ""), ("zlib", ""), ("unicode_escape", ""), ("rot13", ""),
        ("a\0b", ""), ("", ""), ("ä", ""), ("x" * 100_000, ""),
    ],
)  # fmt: skip
def test_encodings_of_texts(name: str, known: str) -> None:
    assert text_encoding(name) == known


def test_utf_7_is_read_in_mail() -> None:
    mail = b"Content-Type: text/plain; charset=utf-7\r\n\r\nDon+APw-"
    assert read_mail(mail, PLAIN).text == "Donü"


@pytest.mark.parametrize(
    "boundary", ['boundary="b%d"', 'boundary ="b%d"', "boundary*=us-ascii''b%d", "boundary*0=b%d", 'BOUNDARY\t= "b%d"']
)
def test_parts_nested_without_end_are_refused_however_they_are_written(boundary: str) -> None:
    heads = [f"Content-Type: multipart/mixed; {boundary % n}\n\n--b{n}\n" for n in range(70)]
    with pytest.raises(Unreadable, match="more than 64 nested parts"):
        read_mail(("Subject: x\n" + "".join(heads) + "Content-Type: text/plain\n\na\n").encode(), PLAIN)


@pytest.mark.parametrize("part", ["\n--b\n\na", "\r--b\r\ra", "\r\n--b\r\n\r\na"])
def test_parts_without_end_are_refused_however_their_lines_end(part: str) -> None:
    mail = "Subject: x\nContent-Type: multipart/mixed; boundary=b\n" + part * 20_001
    with pytest.raises(Unreadable, match="more than 20000 parts"):
        read_mail(mail.encode(), PLAIN)
