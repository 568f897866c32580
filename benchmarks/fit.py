"""Tokens a second of `train reader fit`, and of a plain loop over the same rows: python -m benchmarks.fit

The loop is what a card can do: batches with about as many tokens each, logits at the replies alone, no activations
computed again, nothing written. The fit makes the same steps as in earnest, with its checks, metrics and files. Rows
are passages of random words with a short reply. On a card, take a base and a batch that fill it:

    python -m benchmarks.fit [--base smollm2] [--rows 64] [--tokens 400] [--batch 8] [--lora-rank 16] [--json FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from reground.core.language import Message
from reground.models.hf import padded
from reground.training.fitting import Step, by_tokens
from reground.training.rows import Demonstration
from reground.training.settings import Fitting
from reground.training.sft import Pair, fit_named, tokenised
from reground.training.weights import adapted, load_base

WORDS = ("the", "river", "bridge", "was", "built", "in", "by", "of", "a", "town", "stone", "north", "and", "which")
REPLY = 30  # words


def rows_of(count: int, tokens: int, draw: random.Random) -> list[Demonstration]:
    """Rows whose prompts have from half to one and a half times as many words as there should be tokens."""
    rows = []
    for number in range(count):
        asked, said = (" ".join(draw.choices(WORDS, k=k)) for k in (draw.randint(tokens // 2, tokens * 3 // 2), REPLY))
        messages = (Message(role="user", content=asked), Message(role="assistant", content=said))
        rows.append(Demonstration(question=str(number), messages=messages))
    return rows


def plain(base: str, batches: Sequence[Sequence[Pair]], settings: Fitting) -> float:
    """Seconds of a loop that takes a step for each batch; the first batch is not counted."""
    model, tokenizer = load_base(base, frozen=settings.lora_rank > 0, bfloat16=settings.bfloat16)
    model = adapted(model, settings.lora_rank)
    device, pad = model.device, tokenizer.pad_token_id
    optimizer = torch.optim.AdamW([each for each in model.parameters() if each.requires_grad], lr=1e-4, fused=True)
    began = time.perf_counter()
    for number, batch in enumerate(batches):
        if number == 1:
            _wait()
            began = time.perf_counter()
        first = min(len(prompt) for prompt, _ in batch)
        ids = padded([prompt + reply for prompt, reply in batch], pad)["input_ids"].to(device)
        labels = padded([[-100] * (len(prompt) - first + 1) + reply for prompt, reply in batch], -100)["input_ids"]
        given: dict[str, Any] = {"logits_to_keep": labels.shape[1], "use_cache": False}
        with torch.autocast(device.type, torch.bfloat16, enabled=settings.bfloat16):
            logits = model(input_ids=ids, **given).logits[:, :-1].float()
        torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels[:, 1:].flatten().to(device)).backward()
        optimizer.step()
        optimizer.zero_grad()
    _wait()
    return time.perf_counter() - began


def fitted(base: str, rows: Sequence[Demonstration], settings: Fitting) -> float:
    """Seconds from the end of the first step to that of the last one."""
    times: list[float] = []

    def on_step(step: Step) -> None:
        times.append(time.perf_counter())

    with tempfile.TemporaryDirectory() as out:
        fit_named(Path(out), "model", rows, base, settings, on_step=on_step)
    return times[-1] - times[0]


def _wait() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--base", default="smollm2", help="the weights to begin with, as in hf/")
    parser.add_argument("--rows", type=int, default=64)
    parser.add_argument("--tokens", type=int, default=400, help="about how many a prompt has")
    parser.add_argument("--batch", type=int, default=8, help="rows of a step of the fit")
    parser.add_argument("--lora-rank", type=int, default=16, help="0 trains all weights")
    parser.add_argument("--precision", choices=("auto", "float32", "bfloat16"), default="auto")
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    chosen = parser.parse_args()
    settings = Fitting(
        epochs=1, batch=chosen.batch, lora_rank=chosen.lora_rank, precision=chosen.precision, max_length=1 << 20
    )
    rows = rows_of(chosen.rows, chosen.tokens, random.Random(0))
    _, tokenizer = load_base(chosen.base)
    pairs = [tokenised(tokenizer, row, apart=False) for row in rows]
    total = sum(len(prompt) + len(reply) for prompt, reply in pairs)
    most = chosen.batch * total // len(pairs)
    batches = by_tokens(pairs, lambda pair: sum(map(len, pair)), most)
    steps = -(-len(rows) // chosen.batch)
    loop_tokens = total - sum(len(prompt) + len(reply) for prompt, reply in batches[0])
    loop = loop_tokens / plain(chosen.base, batches, settings)
    fit = total * (steps - 1) / steps / fitted(chosen.base, rows, settings)
    device = torch.cuda.get_device_name() if torch.cuda.is_available() else "processor"
    print(f"{device}, {chosen.base}, {len(rows)} rows with {total} tokens, batch {chosen.batch}")
    print(f"loop: {loop:,.0f} tokens a second; fit: {fit:,.0f}, {fit / loop:.2f} of it")
    if chosen.json:
        figures = {"device": device, "loop": loop, "fit": fit, "base": chosen.base, "tokens": total}
        chosen.json.write_text(json.dumps(figures, indent=2))
    return 0


if __name__ == "__main__":
    sys.exit(main())
