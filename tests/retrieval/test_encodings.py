"""Files in encodings other than UTF-8: read where that can be made out, and said where it was guessed."""

import pytest

from reground.retrieval.encodings import Unreadable, decode
from tests.retrieval.files import read

RUSSIAN = "Дунай берёт начало в Шварцвальде и течёт через десять стран к Чёрному морю."
JAPANESE = "ドナウ川はドイツの森から流れ出し、十か国を通って黒海に注ぐ。"
CHINESE = "多瑙河发源于德国黑森林，流经十个国家，注入黑海。"
FRENCH = "Le Danube prend sa source dans la Forêt-Noire et traverse dix pays : très long, très lent, déjà âgé."
KOREAN = "다뉴브강은 독일의 숲에서 발원하여 열 개 나라를 지나 흑해로 흘러든다."
TAIWANESE = "多瑙河發源於德國黑森林，流經十個國家，注入黑海。"
GREEK = "Ο Δούναβης πηγάζει στον Μέλανα Δρυμό της Γερμανίας και διασχίζει δέκα χώρες ως τη Μαύρη Θάλασσα."
THAI = "แม่น้ำเจ้าพระยาไหลผ่านกรุงเทพมหานครลงสู่อ่าวไทย"
ARABIC = "نهر الدانوب ينبع من الغابة السوداء في ألمانيا ويمر بعشر دول حتى البحر الأسود"
POLISH = "Dunaj wypływa z gór Szwarcwald i płynie przez dziesięć krajów do Morza Czarnego."


@pytest.mark.parametrize(
    ("text", "encoding", "guessed"),
    [
        (RUSSIAN, "cp1251", "windows-1251"), (RUSSIAN, "koi8-r", "koi8_r"), (RUSSIAN, "cp866", "ibm866"),
        (JAPANESE, "shift_jis", "shift_jis"), (JAPANESE, "euc-jp", "euc_jp"), (KOREAN, "euc_kr", "euc-kr"),
        (CHINESE, "gb18030", "gb18030"), (TAIWANESE, "big5", "big5"), (FRENCH, "latin-1", "windows-1252"),
        (POLISH, "cp1250", "windows-1250"), (GREEK, "cp1253", "windows-1253"), (THAI, "cp874", "windows-874"),
        (ARABIC, "cp1256", "windows-1256"), (RUSSIAN, "utf-8", ""), (RUSSIAN, "utf-16", ""), (JAPANESE, "utf-16", ""),
        (CHINESE, "utf-32", ""), (RUSSIAN, "utf-8-sig", ""),
    ],
)  # fmt: skip
def test_a_text_file_is_read_and_a_guess_is_told(text: str, encoding: str, guessed: str) -> None:
    for repeats in (1, 3000):
        document = read("a.txt", f"{text}\n".encode(encoding) * (1 if "utf" in encoding else repeats))
        assert document.text.startswith(text)
        assert "\ufffd" not in document.text
        assert document.guessed == guessed


@pytest.mark.parametrize("text", [RUSSIAN, FRENCH, JAPANESE + "\n", CHINESE + "\n2 km"])
@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
def test_utf_16_without_a_mark_is_made_out(text: str, encoding: str) -> None:
    document = read("a.txt", f"{text}\n".encode(encoding))
    assert (document.text.strip(), document.guessed) == (text.strip(), encoding)


@pytest.mark.parametrize("content", [bytes(range(256)) * 9, b"\0\1\2", b"\x7fELF\2\1\1" + b"\0" * 99, b"PK\3\4 a\0b"])
def test_what_is_no_utf_16_is_binary(content: bytes) -> None:
    with pytest.raises(Unreadable, match="is binary"):
        decode(content)


def test_one_line_of_utf_8_in_a_log_of_another_encoding_is_read() -> None:
    log = "ok\nGröße überschritten\n".encode() + "Gr\xf6\xdfe \xfcberschritten\n".encode("latin-1")
    assert read("a.log", log).text == "ok\n" + "Größe überschritten\n" * 2


def test_what_only_tells_a_terminal_is_left_out() -> None:
    log = "\x1b[1;31mERROR\x1b[0m pump \x1b]8;;http://a.example\x07seven\x1b]8;;\x07\nN\bNA\bAM\bME\bE \x1b(Bok\x1b[K"
    assert read("a.log", log).text == "ERROR pump seven\nNAME ok"


def test_a_carriage_return_alone_ends_a_line() -> None:
    assert read("a.md", "# Pumps\r\rSeven.\rEight.").text == "# Pumps\n\nSeven.\nEight."
    assert read("a.md", "# Pumps\r\rSeven.").title == "Pumps"
    assert read("a.txt", "one\r\ntwo").text == "one\r\ntwo"


def test_a_long_line_without_an_end_is_made_out_too() -> None:
    text = KOREAN * 3000
    assert read("a.txt", text.encode("euc-kr")).text == text


def test_a_few_broken_bytes_leave_a_text_utf_8() -> None:
    content = (RUSSIAN * 20).encode() + b"\xff" + RUSSIAN.encode()
    document = read("a.txt", content)
    assert document.text == RUSSIAN * 20 + "\ufffd" + RUSSIAN
    assert document.guessed == "damaged utf-8"


PAGE = "<html><head>{head}<title>Река</title></head><body><p>{text}</p><p>{text}</p></body></html>"


@pytest.mark.parametrize(
    ("start", "head", "text", "encoding"),
    [
        ("", '<meta charset="windows-1251">', RUSSIAN, "cp1251"),
        ("", "<META http-equiv='Content-Type' content='text/html; charset=koi8-r'>", RUSSIAN, "koi8-r"),
        ('<?xml version="1.0" encoding="windows-1251"?>\n', "", RUSSIAN, "cp1251"),
        ("<!DOCTYPE html>", "<meta charset=ISO-2022-JP>", JAPANESE, "iso2022_jp"),
        ("", "<meta charset=x-sjis>", JAPANESE, "cp932"),
        ("", "<meta charset=gb2312>", CHINESE, "gb18030"),
        ("", '<meta charset="utf-8">', RUSSIAN, "utf-16"),  # its byte-order mark knows better
        ("", '<meta charset="iso-8859-1">', RUSSIAN, "utf-8"),  # as do bytes that are valid UTF-8
    ],
)
def test_a_page_is_read_in_the_encoding_that_it_declares(start: str, head: str, text: str, encoding: str) -> None:
    page = PAGE.format(head=head, text=text)
    if encoding == "iso2022_jp" or text is CHINESE or text is JAPANESE:
        page = page.replace("Река", "川")
    document = read("a.html", (start + page).encode(encoding))
    assert text in document.text
    assert document.title in ("Река", "川")
    assert document.guessed == ""


@pytest.mark.parametrize("declared", ["", "punycode", "utf-8", "no-such-thing"])
def test_a_page_that_declares_nothing_of_use_is_guessed(declared: str) -> None:
    document = read("a.html", PAGE.format(head=f'<meta charset="{declared}">', text=RUSSIAN).encode("cp1251"))
    assert RUSSIAN in document.text
    assert document.guessed == "windows-1251"


def test_what_is_no_text_is_said_to_be_none() -> None:
    noise = bytes((i * i * 7 + i) % 255 + 1 for i in range(3000))
    for content in (b"\x89PNG\r\n\x1a\n\x00\x00", noise):
        with pytest.raises(Unreadable, match="is binary, not text"):
            decode(content)


SPANISH = "Año nuevo en Málaga: la niña cenó jamón.\n"
QUOTED = "The “long” river isn’t “wide”, it’s deep.\n"


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (SPANISH.encode() + b"\xff", SPANISH + "ÿ"),
        (SPANISH.encode() + "Él vió el \ufffd río.".encode().replace("\ufffd".encode(), b"\xf1"),
         SPANISH + "Él vió el \ufffd río."),
        (QUOTED.encode() + b"It isn\x92t.", QUOTED + "It isn’t."),
        (RUSSIAN.encode() + b" \xc3", RUSSIAN + " \ufffd"),
        (RUSSIAN.encode()[:-1].removesuffix("ю".encode()) + b"\xd1", RUSSIAN[:-2] + "\ufffd"),
        (JAPANESE.encode()[:-2], JAPANESE[:-1] + "\ufffd"),
        ((SPANISH * 2).encode() + (FRENCH + "\n").encode("latin-1") * 4, SPANISH * 2 + (FRENCH + "\n") * 4),
        (f"{FRENCH}\n".encode() + f"{RUSSIAN}\n".encode("cp1251") + RUSSIAN.encode(),
         f"{FRENCH}\n{RUSSIAN}\n{RUSSIAN}"),
    ],
)  # fmt: skip
def test_a_text_that_is_mostly_utf_8_is_read_as_such(content: bytes, text: str) -> None:
    assert decode(content) == (text, "damaged utf-8")


@pytest.mark.parametrize("text", ["Größe", "Año nuevo", "Straße: für Öfen", FRENCH[-20:]])
def test_short_texts_in_other_encodings_are_no_utf_8(text: str) -> None:
    assert decode(text.encode("latin-1")).guessed not in ("", "damaged utf-8")
