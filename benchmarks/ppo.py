"""What an iteration of PPO takes with its frozen layers computed once, beside the plain way, in one run.

    python -m benchmarks.ppo BASE QUESTIONS [--layers 10] [--replies 128] [--rounds 3]

BASE: a model as in hf/. QUESTIONS: a JSONL file whose rows have `question`. Both ways sample replies of up to 40 tokens
and score and train on the same ones; the rounds alternate, and the medians are shown in processor seconds. The plain
way samples with transformers' generate and computes all layers in every pass.
"""

from __future__ import annotations

import argparse
import itertools
import json
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import torch

from reground.training.ppo.policy import Policy
from reground.training.ppo.settings import Optimising
from reground.training.ppo.tokens import Prompts, Replies
from reground.training.rewriter.train import make_policy, rewriter_prompt

_MOST = 40
_BATCH = 16
STAGES = ("sampling", "scoring", "training")


def main(arguments: Sequence[str] | None = None) -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("base")
    parser.add_argument("questions", type=Path)
    parser.add_argument("--layers", type=int, default=10)
    parser.add_argument("--replies", type=int, default=128)
    parser.add_argument("--rounds", type=int, default=3)
    order = parser.parse_args(arguments)
    settings = Optimising()
    torch.manual_seed(0)
    policy = make_policy(order.base, settings, layers=order.layers)
    rows = (json.loads(line) for line in order.questions.read_text(encoding="utf-8").splitlines())
    asked = [str(row["question"]) for row in itertools.islice(rows, order.replies)]
    texts = sorted((rewriter_prompt(policy.tokenizer, each, apart=policy.apart) for each in asked), key=len)
    prompts = policy.prompts(texts, most=settings.prompt_tokens)
    replies = policy.sample(prompts, most=_MOST)
    found: dict[bool, list[list[float]]] = {True: [], False: []}
    for _ in range(order.rounds):
        for once in (False, True):
            found[once].append(_round(policy, prompts, replies, settings, once=once))
    print(
        f"{len(asked)} replies of {float(replies.lengths.float().mean()):.0f} tokens, {order.layers} layers trained\n"
    )
    print("| stage | plain, s | frozen layers once, s | ratio |\n|---|---:|---:|---:|")
    for number, stage in enumerate(STAGES):
        plain, less = (statistics.median(row[number] for row in found[way]) for way in (False, True))
        print(f"| {stage} | {plain:.1f} | {less:.1f} | {less / plain:.2f} |")


def _round(policy: Policy, prompts: Prompts, replies: Replies, settings: Optimising, *, once: bool) -> list[float]:
    """The processor seconds of each stage; the training is one epoch."""
    pieces = [slice(start, start + _BATCH) for start in range(0, len(prompts.ids), _BATCH)]
    below = dict.fromkeys(range(len(pieces)))

    def sample() -> None:
        for start in range(0, len(prompts.ids), settings.sample_batch):
            some = prompts.at(slice(start, start + settings.sample_batch))
            if once:
                policy.sample(some, most=_MOST)
            else:
                policy._generated(policy.model, some.whole(), _MOST, 1.0, 1)

    def score() -> None:
        with torch.no_grad():
            for number, rows in enumerate(pieces):
                asked, said = prompts.at(rows), replies.at(rows)
                scored = policy(asked, said, 1.0, measured=True)
                below[number] = scored.below if once else None
                policy.reference_logprobs(asked, said, 1.0, below=below[number])

    def train() -> None:
        for number, rows in enumerate(pieces):
            scored = policy(prompts.at(rows), replies.at(rows), 1.0, below=below[number])
            (scored.logprobs.mean() + scored.values.mean()).backward()
            policy.zero_grad()

    return [_seconds(stage) for stage in (sample, score, train)]


def _seconds(work: Callable[[], None]) -> float:
    began = time.process_time()
    work()
    return time.process_time() - began


if __name__ == "__main__":
    main()
