"""Ask a folder of documents and print the answer with what it rests on.

python examples/ask_documents.py FOLDER "question" [model]
"""

from __future__ import annotations

import sys

import reground


def main(folder: str, question: str, model: str = "gguf/smollm2") -> None:
    result = reground.ask(question, corpus=folder, method="rar", model=model)
    print(result.text)
    for passage in result.shown:
        print(f"[{passage.marker}] {passage.title}: {passage.quote}")
    print(f"{result.usage.calls} calls, {result.usage.tokens} tokens, {result.seconds:.1f} s")


if __name__ == "__main__":
    main(*sys.argv[1:])
