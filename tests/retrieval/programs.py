"""The programs that read PDFs, as the system sees them, and a PDF that keeps one busy."""

import time
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")


def long_pdf(pages: int = 20, letters: int = 3_000_000) -> bytes:
    """A small file whose text takes minutes: each of its pages draws the same millions of letters."""
    drawing = zlib.compress(
        b"BT /F1 1 Tf 10 700 Td\n" + (b"(" + b"a" * 100 + b") Tj 0 -1 Td\n") * (letters // 100) + b"ET"
    )
    first = 5
    kids = b" ".join(b"%d 0 R" % (first + number) for number in range(pages))
    objects = [
        b"<< /Type /Catalog /Pages 2 0 R >>",
        b"<< /Type /Pages /Count %d /MediaBox [0 0 600 800] /Resources << /Font << /F1 3 0 R >> >> /Kids [%s] >>"
        % (pages, kids),
        b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
        b"<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream" % (len(drawing), drawing),
        *[b"<< /Type /Page /Parent 2 0 R /Contents 4 0 R >>"] * pages,
    ]
    made, places = b"%PDF-1.4\n", []
    for number, each in enumerate(objects, start=1):
        places.append(len(made))
        made += b"%d 0 obj\n%s\nendobj\n" % (number, each)
    lines = b"".join(b"%010d 00000 n \n" % place for place in places)
    count = len(objects) + 1
    table = b"xref\n0 %d\n0000000000 65535 f \n%strailer << /Size %d /Root 1 0 R >>\n" % (count, lines, count)
    return made + table + b"startxref\n%d\n%%%%EOF" % len(made)


def programs_of(process: int) -> list[int]:
    """The ids of the programs that a process has begun to read PDFs or pages with."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
            if parent == process and b"retrieval" in path.with_name("cmdline").read_bytes():
                found.append(int(path.parent.name))
        except OSError:
            continue
    return found


def is_alive(process: int) -> bool:
    """Whether a process runs; one that only waits to be buried does not."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def wait_for(look: Callable[[], T], seconds: float = 30.0) -> T:
    """What `look` finds as soon as it finds something."""
    ends = time.monotonic() + seconds
    while not (found := look()):
        assert time.monotonic() < ends
        time.sleep(0.02)
    return found
