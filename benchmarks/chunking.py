"""How texts are cut: whether code, tables and headings stay with what belongs to them, how fast, and in which tokens.

    python -m benchmarks.chunking [--tokens 400] [--gguf FILE ...] [MARKDOWN_OR_FOLDER ...]

reground's cutter stands beside semantic-text-splitter (pip install semantic-text-splitter; its row is left out where it
is not installed), which is given the same count of tokens. Both cut without overlap. Blocks of code and tables count
where they fit in a piece. With --gguf the count is compared with the tokenizers of models (extra [train]).
"""

from __future__ import annotations

import argparse
import re
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from reground.retrieval.chunking import chunk, count_tokens

Cut = Callable[[str], list[tuple[int, int]]]

HOME = Path(__file__).parents[1]
_CODE = re.compile(r"^```[^\n]*\n(?s:.*?)^```", re.MULTILINE)
_TABLE = re.compile(r"^\|[^\n]*(?:\n\|[^\n]*)+", re.MULTILINE)
_HEADING = re.compile(r"#{1,6} ")


def main(arguments: Sequence[str] | None = None) -> None:
    """Cut, count and print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("places", nargs="*", type=Path, default=[HOME / "docs", HOME / "CHANGELOG.md"])
    parser.add_argument("--tokens", type=int, default=400)
    parser.add_argument("--gguf", nargs="+", type=Path, default=[])
    options = parser.parse_args(arguments)
    files = [file for place in options.places for file in (sorted(place.rglob("*.md")) if place.is_dir() else [place])]
    texts = [file.read_text(encoding="utf-8") for file in files]
    print(
        f"{len(texts)} files, {sum(map(len, texts)) / 1e6:.2f} million characters, pieces of {options.tokens} tokens\n"
    )
    print("| cutter | pieces | code cut | tables cut | end in a heading | begin with one | MB a CPU second |")
    print("|---|---:|---:|---:|---:|---:|---:|")
    for name, cut in cutters(options.tokens).items():
        print(f"| {name} | {' | '.join(row(texts, cut, options.tokens))} |", flush=True)
    for file in options.gguf:
        print(compared(file, {"Markdown": "\n".join(texts), "code": _python()}))


def cutters(size: int) -> dict[str, Cut]:
    """Cutters by name."""
    found: dict[str, Cut] = {"reground": lambda text: [(piece.start, piece.end) for piece in chunk(text, size)]}
    try:
        from semantic_text_splitter import MarkdownSplitter
    except ImportError:
        return found
    splitter = MarkdownSplitter.from_callback(count_tokens, size)
    found["semantic-text-splitter"] = lambda text: [(at, at + len(each)) for at, each in splitter.chunk_indices(text)]
    return found


def row(texts: Sequence[str], cut: Cut, size: int) -> list[str]:
    """The figures of one cutter."""
    began = time.process_time()
    pieces = [cut(text) for text in texts]
    seconds = time.process_time() - began
    said = [text[start:end] for text, each in zip(texts, pieces, strict=True) for start, end in each]
    ends = sum(bool(_HEADING.match(each.rstrip().rpartition("\n")[2])) for each in said)
    begins = sum(bool(_HEADING.match(each)) for each in said)
    speed = sum(map(len, texts)) / 1e6 / seconds
    code, tables = (_broken(texts, pieces, block, size) for block in (_CODE, _TABLE))
    return [str(len(said)), code, tables, str(ends), str(begins), f"{speed:.1f}"]


def _broken(texts: Sequence[str], pieces: Sequence[list[tuple[int, int]]], block: re.Pattern[str], size: int) -> str:
    """How many of the blocks that fit in a piece have a cut inside."""
    broken = count = 0
    for text, each in zip(texts, pieces, strict=True):
        for found in block.finditer(text):
            if count_tokens(found.group()) <= size:
                count += 1
                broken += any(found.start() < start < found.end() for start, _ in each)
    return f"{broken} of {count}"


def _python() -> str:
    return "\n".join(file.read_text(encoding="utf-8") for file in sorted((HOME / "src").rglob("*.py")))


def compared(gguf: Path, texts: dict[str, str]) -> str:
    """A model's count of tokens over ours."""
    from transformers import AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(gguf.parent, gguf_file=gguf.name)
    ratios = (f"{name} {len(tokenizer(text)['input_ids']) / count_tokens(text):.2f}" for name, text in texts.items())
    return f"\n{gguf.name}: tokens over ours: {', '.join(ratios)}"


if __name__ == "__main__":
    main()
