"""PPO: sample replies, have them judged, and improve the policy on them, iteration after iteration.

Rewrite-Retrieve-Read, section 3.2; the equations are in `equations.py`. Replies are judged in the background while the
model samples the next ones. A checkpoint is written after every few iterations; a training that was killed goes on from
the newest and comes to the same result.
"""

from __future__ import annotations

import asyncio
import json
import math
import random
import shutil
import threading
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, Self, TypeVar

import torch

from reground.core.errors import ConfigurationError, TrainingFailed
from reground.training.fitting import WHOLE, append_metrics, forget_after, newest_checkpoint, result
from reground.training.ppo import equations as ppo
from reground.training.ppo.policy import Below, Policy, Prompts, Replies
from reground.training.settings import Optimising

Metrics = dict[str, float]


@dataclass(frozen=True)
class Rollout:
    """An iteration's episodes, as tensors of one row each, and what was measured before the update."""

    prompts: Prompts
    replies: Replies
    logprobs: torch.Tensor
    values: torch.Tensor
    advantages: torch.Tensor
    returns: torch.Tensor
    below: Below | None
    metrics: Metrics

    def at(self, rows: torch.Tensor) -> tuple[Prompts, Replies, Below | None]:
        """The episodes of some rows, as narrow as they can be."""
        prompts, replies = self.prompts.at(rows), self.replies.at(rows)
        if self.below is None:
            return prompts, replies, None
        return prompts, replies, self.below.at(rows, prompts, replies, reply_width=self.replies.tokens.shape[1])


def hash_of(*parts: object) -> int:
    """A seed that depends on all parts and on nothing else."""
    return random.Random(repr(parts)).getrandbits(63)


def order_of(total: int, seed: int, epoch: int) -> list[int]:
    """The order of the questions in a pass over all of them."""
    order = list(range(total))
    random.Random(repr((seed, epoch))).shuffle(order)
    return order


def batches(lengths: torch.Tensor, size: int, draw: torch.Generator) -> list[torch.Tensor]:
    """Every row once, in batches in random order.

    The rows are shuffled and cut into pieces of four batches; within a piece, rows of like length come together, so
    that little padding is computed.
    """
    pieces = torch.randperm(len(lengths), generator=draw).split(4 * size)
    found = [rows for piece in pieces for rows in piece[lengths[piece].argsort(stable=True)].split(size)]
    return [found[place] for place in torch.randperm(len(found), generator=draw)]


def slices(total: int, size: int) -> Iterator[slice]:
    """Consecutive pieces of this size, the last one shorter."""
    for start in range(0, total, size):
        yield slice(start, min(total, start + size))


Q = TypeVar("Q")

Judged = Mapping[str, float]
"""What a reply is worth: `score` is the reward, the other numbers are its parts."""
Judge = Callable[[Q, str], Awaitable[Judged]]


class Judging(Generic[Q]):
    """Judges replies in a thread with an event loop of its own, so that many wait for a reader at once."""

    def __init__(self, judge: Judge[Q]) -> None:
        self._judge = judge
        self._loop = asyncio.new_event_loop()
        self._over = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="judging", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._loop.call_soon_threadsafe(self._over.set)
        self._thread.join(timeout=1)

    def _run(self) -> None:
        """Serve until the end, then cancel what still waits."""
        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(self._over.wait())

    def submit(self, question: Q, text: str) -> Future[Judged]:
        """Begin to judge a reply."""

        async def judged() -> Judged:
            return await self._judge(question, text)

        return asyncio.run_coroutine_threadsafe(judged(), self._loop)


_RATIO = 1e-2
"""How far any token's first ratio may be from 1; sums in another order move it a little, a fault moves it much."""

_HALF_RATIO = 5e-2
"""The same for the mean over the tokens, in bfloat16. There a batch of another width moves single tokens by up to 0.25,
and the mean by 0.01."""

BEST = "best"
"""The checkpoint that was best on the validation questions."""

_LONGEST = 32
"""Prompts, the longest in characters, whose tokens are counted before a training begins."""


@dataclass
class _State:
    """What a checkpoint holds beside weights and optimizer. length: the mean of the first iteration, in tokens."""

    done: int = 0
    beta: float = 0.0
    rate: float = 1.0
    best: float = -math.inf
    best_at: int = 0
    collapses: int = 0
    length: float | None = None


class Optimiser(Generic[Q]):
    """One training.

    policy: changed in place. prompt: what the policy reads for a question. questions: to train on; validation: to
    choose the best checkpoint by. judge: the reward of a reply. out: the folder of checkpoints and metrics.jsonl.
    """

    def __init__(
        self,
        policy: Policy,
        settings: Optimising,
        *,
        prompt: Callable[[Q], str],
        questions: Sequence[Q],
        validation: Sequence[Q],
        judge: Judge[Q],
        out: Path,
    ) -> None:
        if not questions or not validation:
            raise ConfigurationError("training needs questions to train on and others to choose the best weights by")
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        from accelerate import Accelerator
        from accelerate.state import AcceleratorState

        # an earlier training may have had another precision
        AcceleratorState._reset_state(reset_partial_state=True)  # noqa: SLF001
        self.half = settings.bfloat16
        mixed = "bf16" if self.half else "no"
        self.accelerator = Accelerator(cpu=not torch.cuda.is_available(), mixed_precision=mixed)
        self.settings, self.prompt, self.out = settings, prompt, out
        self.questions, self.validation, self.judge = questions, validation, judge
        trained = [each for each in policy.parameters() if each.requires_grad]
        # eps as in Huang et al. 2024; fused computes the same in a fifth of the time
        optimizer = torch.optim.Adam(trained, lr=settings.learning_rate, eps=1e-5, fused=True)
        self.policy, self.optimizer = self.accelerator.prepare(policy, optimizer)
        self.state = _State(beta=settings.beta)

    def train(self, on_iteration: Callable[[int, Metrics], None] = lambda number, metrics: None) -> Policy:
        """Train to the end, and return the policy with the weights that were best on the validation questions.

        Raises TrainingFailed at a loss that is not finite, or when the policy collapses again and again.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        if (newest := newest_checkpoint(self.out)) is not None:
            self._restore(newest)
        forget_after(self.out, self.state.done)
        self._check_context()
        with Judging(self.judge) as judging:
            if not self.state.done:
                self._validate(judging, {})
            while self.state.done < self.settings.iterations:
                metrics = self._iterate(judging)
                on_iteration(self.state.done, metrics)
        return self.best()

    def best(self) -> Policy:
        """The policy with the weights that were best on the validation questions."""
        self._restore_weights(self.out / BEST)
        return self._plain

    def _check_context(self) -> None:
        """Raise ConfigurationError where the longest prompts leave no room for a reply."""
        settings = self.settings
        texts = sorted({self.prompt(each) for each in (*self.questions, *self.validation)}, key=len)
        width = self._plain.prompts(texts[-_LONGEST:], most=settings.prompt_tokens).width
        self._plain.check_room(width, settings.reply_tokens)

    @property
    def _plain(self) -> Policy:
        policy: Policy = self.accelerator.unwrap_model(self.policy)
        return policy

    def _iterate(self, judging: Judging[Q]) -> Metrics:
        began = time.monotonic()
        rollout = self._roll_out(judging)
        metrics = rollout.metrics | self._improve(rollout)
        self.state.beta = ppo.AdaptiveKL(self.state.beta, self.settings.target).after(metrics["kl"]).beta
        self.state.done += 1
        if self._collapsed(metrics):
            self._go_back(metrics)
        elif self.state.done % self.settings.validate_every == 0 or self.state.done == self.settings.iterations:
            self._validate(judging, metrics)
        metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
        metrics["seconds"] = time.monotonic() - began
        append_metrics(self.out, self.state.done, metrics)  # a kill behind the checkpoint would lose them
        if self.state.done % self.settings.checkpoint_every == 0 or self.state.done == self.settings.iterations:
            self._save(self.out / f"checkpoint-{self.state.done}")
        return metrics

    def _roll_out(self, judging: Judging[Q]) -> Rollout:
        """Sample replies to the iteration's questions, and have them judged while the next ones are sampled."""
        settings, policy = self.settings, self._plain
        asked = list(self._questions_of(self.state.done))
        torch.manual_seed(hash_of(settings.seed, self.state.done))
        every = policy.prompts([self.prompt(question) for question in asked], most=settings.prompt_tokens)
        order = every.mask.sum(-1).argsort(stable=True)  # prompts of like length together: less padding to compute
        prompts, asked = every.at(order), [asked[place] for place in order.tolist()]
        groups = order // settings.replies
        replies, judged = self._answered(judging, asked, prompts, settings.temperature)
        scores = self._scores(replies, judged)
        kept = ppo.telling(scores, groups)
        metrics = {"used": len(kept) / len(asked), **self._told(replies, judged, scores)}
        counted = ppo.above_the_others(scores, groups)[kept]
        prompts, replies = prompts.at(kept), replies.at(kept)
        columns, below = self._columns(prompts, replies)
        return self._weighed(prompts, replies, columns, below, counted, metrics)

    def _answered(
        self, judging: Judging[Q], asked: Sequence[Q], prompts: Prompts, temperature: float
    ) -> tuple[Replies, list[Judged]]:
        """A reply to each question, and what it is worth."""
        settings, policy = self.settings, self._plain
        sampler = policy.in_bfloat16() if self.half else None
        drawn: list[Replies] = []
        waiting: list[Future[Judged]] = []
        for rows in slices(len(asked), settings.sample_batch):
            some = policy.sample(
                prompts.at(rows), most=settings.reply_tokens, temperature=temperature, model=sampler
            )  # fmt: skip
            waiting += map(judging.submit, asked[rows], policy.texts(some))
            drawn.append(some)
        columns = ([each.tokens for each in drawn], [each.mask for each in drawn], [each.ended for each in drawn])
        return Replies(*map(torch.cat, columns)).at(slice(None)), [each.result() for each in waiting]

    def _scores(self, replies: Replies, judged: list[Judged]) -> torch.Tensor:
        """R_lm of each reply, [B]; a fixed penalty for one without an end."""
        scores = torch.tensor([each["score"] for each in judged], device=replies.mask.device)
        if not torch.isfinite(scores).all():
            raise TrainingFailed(f"the reward of a reply in iteration {self.state.done + 1} is not a finite number")
        penalty = self.settings.no_end
        return scores if penalty is None else torch.where(replies.ended, scores, torch.full_like(scores, penalty))

    def _told(self, replies: Replies, judged: Sequence[Judged], scores: torch.Tensor) -> Metrics:
        """What is measured of all replies of an iteration."""
        empty = torch.tensor([each.get("invalid", 0.0) for each in judged], device=scores.device).bool()
        invalid = empty if self.settings.no_end is None else empty | ~replies.ended
        names = sorted({name for each in judged for name in each} - {"score", "invalid"})
        return {
            "reward": float(scores.mean()),
            "length": float(replies.lengths.float().mean()),
            "ended": float(replies.ended.float().mean()),
            "empty": float(empty.float().mean()),
            "invalid": float(invalid.float().mean()),
            **{name: _mean([each[name] for each in judged if name in each]) for name in names},
        }

    def _columns(self, prompts: Prompts, replies: Replies) -> tuple[dict[str, torch.Tensor], Below | None]:
        """What the policy says of replies, the reference's log-probabilities, and what is below the trained layers.

        They are computed here, by the pass that also trains, even though the sampler knew them: another engine's
        would be those of another policy.
        """
        zeros, temperature = replies.mask.float() * 0, self.settings.temperature
        columns = {name: zeros.clone() for name in ("logprobs", "entropy", "reference")}
        columns["values"] = torch.cat([zeros, zeros[:, :1]], dim=1)
        below: Below | None = None
        for rows in slices(len(zeros), self.settings.batch):
            asked, said = prompts.at(rows), replies.at(rows)
            with torch.no_grad(), self.accelerator.autocast():
                scored = self.policy(asked, said, temperature, measured=True)
                reference = self._plain.reference_logprobs(asked, said, temperature, below=scored.below)
            length = said.tokens.shape[1]
            columns["logprobs"][rows, :length] = scored.logprobs
            columns["entropy"][rows, :length] = scored.entropy
            columns["reference"][rows, :length] = reference
            columns["values"][rows, : length + 1] = scored.values
            if scored.below is not None:
                states = scored.below.rows
                if below is None:
                    width = prompts.ids.shape[1] + zeros.shape[1]
                    below = Below(scored.below.prefix, states.new_zeros(len(zeros), width, states.shape[-1]))
                begin = prompts.ids.shape[1] - asked.ids.shape[1]
                below.rows[rows, begin : begin + states.shape[1]] = states
        return columns, below

    def _weighed(
        self,
        prompts: Prompts,
        replies: Replies,
        columns: Mapping[str, torch.Tensor],
        below: Below | None,
        scores: torch.Tensor,
        metrics: Metrics,
    ) -> Rollout:
        """Equations 3 and 4 for the whole iteration. metrics: what is known of it already."""
        settings, mask = self.settings, replies.mask
        logprobs, reference, values = columns["logprobs"], columns["reference"], columns["values"]
        rewards = ppo.token_rewards(scores, logprobs, reference, mask, beta=self.state.beta)
        advantages, returns = ppo.advantages_and_returns(rewards, values, mask, gamma=settings.gamma, lam=settings.lam)
        metrics |= {
            "kl": float(((logprobs - reference) * mask).sum(-1).mean()),
            "beta": self.state.beta,
            "entropy": float(ppo.masked_mean(columns["entropy"], mask)),
            "explained_variance": ppo.explained_variance(values[:, :-1], returns[:, :-1], mask),
        }
        return Rollout(prompts, replies, logprobs, values, ppo.whiten(advantages, mask), returns, below, metrics)

    def _improve(self, rollout: Rollout) -> Metrics:
        """Equation 5, for some epochs over the iteration's episodes in another order each."""
        settings, found = self.settings, list[Metrics]()
        order = torch.Generator().manual_seed(hash_of(settings.seed, self.state.done, "order"))
        rate = settings.learning_rate * self.state.rate * (1 - self.state.done / settings.iterations)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        lengths = rollout.prompts.mask.sum(-1) + rollout.replies.lengths
        for _ in range(settings.epochs):
            for rows in batches(lengths.cpu(), settings.batch, order):
                found.append(self._step(rollout, rows, first=not found))
        return {"learning_rate": rate} | {name: _mean([each[name] for each in found]) for name in found[0]}

    def _step(self, rollout: Rollout, rows: torch.Tensor, *, first: bool) -> Metrics:
        settings = self.settings
        prompts, replies, below = rollout.at(rows)
        width = replies.tokens.shape[1]
        with self.accelerator.autocast():
            now = self.policy(prompts, replies, settings.temperature, below=below)
        old, advantages = rollout.logprobs[rows, :width], rollout.advantages[rows, :width]
        if first:
            self._check_ratio(now.logprobs - old, replies.mask)
        policy = ppo.policy_loss(now.logprobs, old, advantages, replies.mask, clip=settings.clip)
        value = ppo.value_loss(
            now.values,
            rollout.values[rows, : width + 1],
            rollout.returns[rows, : width + 1],
            ppo.value_mask(replies.mask),
            clip=settings.clip,
        )
        loss = policy.loss + settings.value_coefficient * value
        self._check_finite("loss", loss)
        self.accelerator.backward(loss)
        norm = self.accelerator.clip_grad_norm_(
            [each for group in self.optimizer.param_groups for each in group["params"]], settings.max_norm
        )
        self._check_finite("gradient", norm)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {
            "loss": loss.item(),
            "policy_loss": policy.loss.item(),
            "value_loss": value.item(),
            "clipped": policy.clipped.item(),
            "update_kl": policy.kl.item(),
        }

    def _check_finite(self, what: str, value: torch.Tensor | None) -> None:
        if value is not None and not torch.isfinite(value):
            raise TrainingFailed(
                f"the {what} is {value.item()} in iteration {self.state.done + 1}: begin again with a lower learning "
                f"rate (it was {self.settings.learning_rate:.2g}); the checkpoints before it are kept in {self.out}"
            )

    def _check_ratio(self, log_ratio: torch.Tensor, mask: torch.Tensor) -> None:
        """Before the first step the policy is the one that sampled, so every ratio is 1 (Huang et al. 2024)."""
        off = log_ratio.detach().abs() * mask
        far = float(off.sum() / mask.sum() if self.half else off.max())
        if far > (_HALF_RATIO if self.half else _RATIO):
            raise TrainingFailed(
                f"the first ratio of iteration {self.state.done + 1} is {math.exp(far):.4f} and not 1: the replies are "
                "not scored as they were sampled, which is a fault of this program or of the model's code"
            )

    def _validate(self, judging: Judging[Q], metrics: Metrics) -> None:
        """Judge greedy replies to the validation questions, and keep the weights if none were better."""
        prompts = self._plain.prompts([self.prompt(each) for each in self.validation], most=self.settings.prompt_tokens)
        _, judged = self._answered(judging, self.validation, prompts, 0)
        metrics["validation"] = _mean([each["score"] for each in judged])
        if metrics["validation"] > self.state.best:
            self.state.best, self.state.best_at = metrics["validation"], self.state.done
            self._save(self.out / BEST)

    def _collapsed(self, metrics: Metrics) -> bool:
        settings = self.settings
        if self.state.length is None:
            self.state.length = metrics["length"]
        longer = metrics["length"] / self.state.length
        return (
            metrics["kl"] > settings.collapse_kl
            or metrics["invalid"] > settings.collapse_invalid
            or max(longer, 1 / longer) > settings.collapse_length
        )

    def _go_back(self, metrics: Metrics) -> None:
        """After a collapse: the best weights again, and half the learning rate."""
        self.state.collapses += 1
        if self.state.collapses > 3:
            raise TrainingFailed(
                f"the policy collapsed in iteration {self.state.done} (divergence {metrics['kl']:.2f} nats, "
                f"{metrics['invalid']:.0%} of the replies unusable, {metrics['length']:.0f} tokens each): begin again "
                f"with a lower learning rate or a larger beta; the checkpoints before it are kept in {self.out}"
            )
        metrics["collapsed"] = 1.0
        self._restore_weights(self.out / BEST)
        self.state.rate /= 2
        self.state.beta = max(self.state.beta, self.settings.beta) * 2

    def _questions_of(self, iteration: int) -> Iterator[Q]:
        """An iteration's questions, as often as each has replies: passes over all, each in an order of its own."""
        total = len(self.questions)
        count = self.settings.episodes // self.settings.replies
        first, last = iteration * count, (iteration + 1) * count
        for epoch in range(first // total, -(-last // total)):
            begin = epoch * total
            order = order_of(total, self.settings.seed, epoch)
            for at in order[max(0, first - begin) : last - begin]:
                yield from [self.questions[at]] * self.settings.replies

    def _save(self, folder: Path) -> None:
        """A checkpoint, marked as whole when it is; the two newest and the best are kept."""
        policy = self._plain
        kept = {name for name, each in policy.named_parameters() if each.requires_grad}
        weights = {name: value for name, value in policy.state_dict().items() if name in kept}
        with result(folder) as part:
            torch.save({"weights": weights, "optimizer": self.optimizer.state_dict()}, part / "state.pt")
            (part / "state.json").write_text(json.dumps(vars(self.state)), encoding="utf-8")
            (part / WHOLE).touch()
        numbered = sorted(self.out.glob("checkpoint-*"), key=lambda each: int(each.name.rpartition("-")[2]))
        for old in numbered[:-2]:
            shutil.rmtree(old, ignore_errors=True)

    def _restore(self, folder: Path) -> None:
        self._restore_weights(folder)
        self.state = _State(**json.loads((folder / "state.json").read_text(encoding="utf-8")))

    def _restore_weights(self, folder: Path) -> None:
        saved = torch.load(folder / "state.pt", map_location=self.accelerator.device, weights_only=True)
        self._plain.load_state_dict(saved["weights"], strict=False)
        self.optimizer.load_state_dict(saved["optimizer"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
