"""PPO: sample replies, have them judged, and improve the policy on them, iteration after iteration.

Rewrite-Retrieve-Read, section 3.2; the equations are in `equations.py`. Replies are judged in the background while the
model samples the next ones. A checkpoint is written after every few iterations; a training that was killed goes on from
the newest and comes to the same result.
"""

from __future__ import annotations

import copy
import json
import math
import random
import shutil
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch

from reground.core.errors import ConfigurationError, TrainingFailed
from reground.training.fitting import WHOLE, append_metrics, by_length, forget_after, newest_checkpoint, result
from reground.training.ppo import equations as ppo
from reground.training.ppo.policy import Policy, Prompts, Replies
from reground.training.settings import Optimising
from reground.training.weights import context_of

Metrics = dict[str, float]

Q = TypeVar("Q")

Judged = Mapping[str, float]
"""What a reply is worth: `score` is the reward, the other numbers are its parts."""
Judge = Callable[[Q, str], "Future[Judged]"]
"""Begins to judge a reply to a question, while others are sampled."""

BEST = "best"
"""The checkpoint that was best on the validation questions."""

_RATIO = {False: 1e-2, True: 5e-2}
"""How far any token's first ratio may be from 1: sums in another order move it a little, a fault moves it much. In
bfloat16 (True), where a batch of another width moves single tokens by up to 0.25, the mean over the tokens counts."""


@dataclass(frozen=True)
class Rollout:
    """An iteration's episodes, as tensors of one row each, and what was measured before the update."""

    prompts: Prompts
    replies: Replies
    columns: Mapping[str, torch.Tensor]
    advantages: torch.Tensor
    returns: torch.Tensor
    metrics: Metrics


@dataclass
class _State:
    """What a checkpoint holds beside weights and optimizer. length: the mean of the first iteration, in tokens."""

    done: int = 0
    beta: float = 0.0
    best: float = -math.inf
    length: float | None = None


@dataclass(kw_only=True)
class Optimiser(Generic[Q]):
    """One training.

    policy: changed in place. prompt: what the policy reads for a question. questions: to train on; validation: to
    choose the best checkpoint by. judge: the reward of a reply. out: the folder of checkpoints and metrics.jsonl.
    """

    policy: Policy
    settings: Optimising
    prompt: Callable[[Q], str]
    questions: Sequence[Q]
    validation: Sequence[Q]
    judge: Judge[Q]
    out: Path

    def __post_init__(self) -> None:
        settings, policy = self.settings, self.policy
        if not self.questions or not self.validation:
            raise ConfigurationError("training needs questions to train on and others to choose the best weights by")
        if settings.threads is not None:
            torch.set_num_threads(settings.threads)
        self.half = settings.bfloat16
        self.device = policy.head.weight.device
        self.trained = [each for each in policy.parameters() if each.requires_grad]
        # eps as in Huang et al. 2024; fused computes the same in a fifth of the time
        self.optimizer = torch.optim.Adam(self.trained, lr=settings.learning_rate, eps=1e-5, fused=True)
        self.state = _State(beta=settings.beta)

    def train(self, on_iteration: Callable[[int, Metrics], None] = lambda number, metrics: None) -> Policy:
        """Train to the end, and return the policy with the weights that were best on the validation questions.

        Raises TrainingFailed at a loss that is not finite, or when the policy collapses.
        """
        self.out.mkdir(parents=True, exist_ok=True)
        if (newest := newest_checkpoint(self.out)) is not None:
            self._restore(newest)
            self.state = _State(**json.loads((newest / "state.json").read_text(encoding="utf-8")))
        forget_after(self.out, self.state.done)
        self._check_context()
        if not self.state.done:
            self._validate({})
        while self.state.done < self.settings.iterations:
            metrics = self._iterate()
            on_iteration(self.state.done, metrics)
        return self.best()

    def best(self) -> Policy:
        """The policy with the weights that were best on the validation questions."""
        self._restore(self.out / BEST)
        return self.policy

    def _check_context(self) -> None:
        """Raise ConfigurationError where the longest prompts leave no room for a reply."""
        texts = [self.prompt(each) for each in (*self.questions, *self.validation)]
        prompt, reply = self._prompts(texts).width, self.settings.reply_tokens
        room = context_of(self.policy.model.config)
        needed = max(prompt, reply) if self.policy.apart else prompt + reply
        if needed > room:
            raise ConfigurationError(
                f"the base has room for {room} tokens, and a prompt of {prompt} and a reply of {reply} need {needed}: "
                "choose another base, or fewer prompt_tokens or reply_tokens"
            )

    def _prompts(self, texts: Sequence[str]) -> Prompts:
        return self.policy.prompts(texts, most=self.settings.prompt_tokens)

    def _autocast(self) -> Any:
        return torch.autocast(self.device.type, torch.bfloat16, enabled=self.half)

    def _iterate(self) -> Metrics:
        began = time.monotonic()
        settings, state = self.settings, self.state
        rollout = self._roll_out()
        # where no reply is better than another, a step would follow the noise
        metrics = rollout.metrics | (self._improve(rollout) if rollout.metrics["used"] else {})
        state.beta = ppo.adapted(state.beta, metrics["kl"], settings.target)
        state.done += 1
        self._check_collapse(metrics)
        last = state.done == settings.iterations
        if last or state.done % settings.validate_every == 0:
            self._validate(metrics)
        metrics = {name: value for name, value in metrics.items() if math.isfinite(value)}
        metrics["seconds"] = time.monotonic() - began
        append_metrics(self.out, state.done, metrics)  # a kill behind the checkpoint would lose them
        if last or state.done % settings.checkpoint_every == 0:
            self._save(self.out / f"checkpoint-{state.done}")
        return metrics

    def _roll_out(self) -> Rollout:
        """Sample replies to the iteration's questions, and have them judged while the next ones are sampled."""
        settings = self.settings
        questions = list(self._questions_of(self.state.done))
        torch.manual_seed(random.Random(repr((settings.seed, self.state.done))).getrandbits(63))
        every = self._prompts([self.prompt(question) for question in questions])
        order = every.mask.sum(-1).argsort(stable=True)  # prompts of like length together: less padding to compute
        prompts, questions = every.at(order), [questions[place] for place in order.tolist()]
        groups = order // settings.replies
        replies, judged = self._answered(questions, prompts, settings.temperature)
        scores = self._scores(replies, judged)
        rows = ppo.telling(scores, groups)
        metrics = {"used": len(rows) / len(questions), **self._measured(replies, judged, scores)}
        above = ppo.above_the_group if settings.algorithm == "grpo" else ppo.above_the_others
        rows = rows if len(rows) else torch.arange(len(questions), device=rows.device)  # which are measured alone
        prompts, replies, gains = prompts.at(rows), replies.at(rows), above(scores, groups)[rows]
        return self._weighed(prompts, replies, self._columns(prompts, replies), gains, metrics)

    def _answered(self, questions: Sequence[Q], prompts: Prompts, temperature: float) -> tuple[Replies, list[Judged]]:
        """A reply to each question, and what it is worth."""
        settings, policy = self.settings, self.policy
        # half the memory traffic; autocast would cast all weights again at every token
        sampler = copy.deepcopy(policy.model).to(torch.bfloat16) if self.half else None
        samples: list[Replies] = []
        waiting: list[Future[Judged]] = []
        try:
            for start in range(0, len(questions), settings.sample_batch):
                rows = slice(start, start + settings.sample_batch)
                some = policy.sample(
                    prompts.at(rows), most=settings.reply_tokens, temperature=temperature, model=sampler
                )
                waiting += map(self.judge, questions[rows], policy.texts(some))
                samples.append(some)
            judged = [each.result() for each in waiting]
        finally:
            for each in waiting:
                each.cancel()  # what still waits when a training ends
        columns = ([each.tokens for each in samples], [each.mask for each in samples], [each.ended for each in samples])
        return Replies(*map(torch.cat, columns)).at(slice(None)), judged

    def _scores(self, replies: Replies, judged: list[Judged]) -> torch.Tensor:
        """R_lm of each reply, [B]; a fixed penalty for one without an end."""
        scores = torch.tensor([float(each["score"]) for each in judged], device=replies.mask.device)
        if not torch.isfinite(scores).all():
            raise TrainingFailed(f"the reward of a reply in iteration {self.state.done + 1} is not a finite number")
        penalty = self.settings.no_end
        return scores if penalty is None else torch.where(replies.ended, scores, torch.full_like(scores, penalty))

    def _measured(self, replies: Replies, judged: Sequence[Judged], scores: torch.Tensor) -> Metrics:
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

    def _columns(self, prompts: Prompts, replies: Replies) -> dict[str, torch.Tensor]:
        """What the policy says of replies, and the reference's log-probabilities.

        They are computed here, by the pass that also trains, even though the sampler knew them: another engine's
        would be those of another policy.
        """
        zeros, temperature = replies.mask.float() * 0, self.settings.temperature
        columns = {name: zeros.clone() for name in ("logprobs", "entropy", "reference")}
        columns["values"] = torch.cat([zeros, zeros[:, :1]], dim=1)
        for start in range(0, len(zeros), self.settings.batch):
            rows = slice(start, start + self.settings.batch)
            contexts, responses = prompts.at(rows), replies.at(rows)
            with torch.no_grad(), self._autocast():
                scored = self.policy(contexts, responses, temperature)
                reference = self.policy.reference_logprobs(contexts, responses, temperature)
            length = responses.tokens.shape[1]
            columns["logprobs"][rows, :length] = scored.logprobs
            columns["entropy"][rows, :length] = scored.entropy
            columns["reference"][rows, :length] = reference
            columns["values"][rows, : length + 1] = scored.values
        return columns

    def _weighed(
        self,
        prompts: Prompts,
        replies: Replies,
        columns: Mapping[str, torch.Tensor],
        scores: torch.Tensor,
        metrics: Metrics,
    ) -> Rollout:
        """Equations 3 and 4 for the whole iteration. metrics: what is known of it already.

        In GRPO all tokens of a reply have its score as their advantage, and values that stay zero are of no effect.
        """
        settings, mask = self.settings, replies.mask
        logprobs, reference, values = columns["logprobs"], columns["reference"], columns["values"]
        rewards = ppo.token_rewards(scores, logprobs, reference, mask, beta=self.state.beta)
        advantages, returns = ppo.advantages_and_returns(rewards, values, mask, gamma=settings.gamma, lam=settings.lam)
        advantages = ppo.whiten(advantages, mask)
        if settings.algorithm == "grpo":
            advantages, returns = scores[:, None] * mask, torch.zeros_like(values)
        metrics |= {
            "kl": float(((logprobs - reference) * mask).sum(-1).mean()),
            "beta": self.state.beta,
            "entropy": float(ppo.masked_mean(columns["entropy"], mask)),
            "explained_variance": ppo.explained_variance(values[:, :-1], returns[:, :-1], mask),
        }
        return Rollout(prompts, replies, columns, advantages, returns, metrics)

    def _improve(self, rollout: Rollout) -> Metrics:
        """Equation 5, for some epochs over the iteration's episodes in another order each."""
        settings, metrics = self.settings, list[Metrics]()
        order = random.Random(repr((settings.seed, self.state.done, "order")))
        rate = settings.learning_rate * (1 - self.state.done / settings.iterations)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        lengths = (rollout.prompts.mask.sum(-1) + rollout.replies.lengths).tolist()
        for _ in range(settings.epochs):
            for rows in by_length(lengths, settings.batch, order, pool=4):
                metrics.append(self._step(rollout, torch.tensor(rows), first=not metrics))
        return {"learning_rate": rate} | {name: _mean([each[name] for each in metrics]) for name in metrics[0]}

    def _step(self, rollout: Rollout, rows: torch.Tensor, *, first: bool) -> Metrics:
        settings, grpo = self.settings, self.settings.algorithm == "grpo"
        prompts, replies = rollout.prompts.at(rows), rollout.replies.at(rows)
        width = replies.tokens.shape[1]
        with self._autocast():
            now = self.policy(prompts, replies, settings.temperature)
        old, advantages = rollout.columns["logprobs"][rows, :width], rollout.advantages[rows, :width]
        if first:
            self._check_ratio(now.logprobs - old, replies.mask)
        policy = ppo.policy_loss(now.logprobs, old, advantages, replies.mask, clip=settings.clip, by_reply=grpo)
        value = ppo.value_loss(
            now.values,
            rollout.columns["values"][rows, : width + 1],
            rollout.returns[rows, : width + 1],
            ppo.value_mask(replies.mask),
            clip=settings.clip,
        )
        loss = policy.loss + settings.value_coefficient * value
        if grpo:
            moved = ppo.divergence(now.logprobs, rollout.columns["reference"][rows, :width], replies.mask)
            loss = loss + self.state.beta * ppo.reply_mean(moved, replies.mask)
        self._check_finite("loss", loss)
        loss.backward()
        self._check_finite("gradient", torch.nn.utils.clip_grad_norm_(self.trained, settings.max_norm))
        self.optimizer.step()
        self.optimizer.zero_grad()
        return {
            "loss": loss.item(),
            "policy_loss": policy.loss.item(),
            "value_loss": value.item(),
            "clipped": policy.clipped.item(),
            "update_kl": policy.kl.item(),
        }

    def _check_finite(self, what: str, value: torch.Tensor) -> None:
        if not torch.isfinite(value):
            raise TrainingFailed(
                f"the {what} is {value.item()} in iteration {self.state.done + 1}: begin again with a lower learning "
                f"rate (it was {self.settings.learning_rate:.2g}); the checkpoints before it are kept in {self.out}"
            )

    def _check_ratio(self, log_ratio: torch.Tensor, mask: torch.Tensor) -> None:
        """Before the first step the policy is the one that sampled, so every ratio is 1 (Huang et al. 2024)."""
        off = log_ratio.detach().abs() * mask
        far = float(off.sum() / mask.sum() if self.half else off.max())
        if far > _RATIO[self.half]:
            raise TrainingFailed(
                f"the first ratio of iteration {self.state.done + 1} is {math.exp(far):.4f} and not 1: the replies are "
                "not scored as they were sampled, which is a fault of this program or of the model's code"
            )

    def _check_collapse(self, metrics: Metrics) -> None:
        """Raise TrainingFailed where an iteration's replies show that the policy went astray."""
        settings, state = self.settings, self.state
        state.length = state.length or metrics["length"]
        longer = metrics["length"] / state.length
        if (
            metrics["kl"] > settings.collapse_kl
            or metrics["invalid"] > settings.collapse_invalid
            or max(longer, 1 / longer) > settings.collapse_length
        ):
            raise TrainingFailed(
                f"the policy collapsed in iteration {state.done} (divergence {metrics['kl']:.2f} nats, "
                f"{metrics['invalid']:.0%} of the replies unusable, {metrics['length']:.0f} tokens each): begin again "
                f"with a lower learning rate or a larger beta; the checkpoints before it are kept in {self.out}"
            )

    def _validate(self, metrics: Metrics) -> None:
        """Judge greedy replies to the validation questions, and keep the weights if none were better."""
        _, judged = self._answered(self.validation, self._prompts([self.prompt(each) for each in self.validation]), 0)
        metrics["validation"] = _mean([each["score"] for each in judged])
        if metrics["validation"] > self.state.best:
            self.state.best = metrics["validation"]
            self._save(self.out / BEST)

    def _questions_of(self, iteration: int) -> Iterator[Q]:
        """An iteration's questions, as often as each has replies: passes over all, each in an order of its own."""
        total = len(self.questions)
        count = self.settings.episodes // self.settings.replies
        first, last = iteration * count, (iteration + 1) * count
        for epoch in range(first // total, -(-last // total)):
            begin, order = epoch * total, list(range(total))
            random.Random(repr((self.settings.seed, epoch))).shuffle(order)
            for at in order[max(0, first - begin) : last - begin]:
                yield from [self.questions[at]] * self.settings.replies

    def _save(self, folder: Path) -> None:
        """A checkpoint, marked as whole when it is; the two newest and the best are kept."""
        trained = {name for name, each in self.policy.named_parameters() if each.requires_grad}
        weights = {name: value for name, value in self.policy.state_dict().items() if name in trained}
        with result(folder) as part:
            torch.save({"weights": weights, "optimizer": self.optimizer.state_dict()}, part / "state.pt")
            (part / "state.json").write_text(json.dumps(vars(self.state)), encoding="utf-8")
            (part / WHOLE).touch()
        numbered = sorted(self.out.glob("checkpoint-*"), key=lambda each: int(each.name.rpartition("-")[2]))
        for old in numbered[:-2]:
            shutil.rmtree(old, ignore_errors=True)

    def _restore(self, folder: Path) -> None:
        """Take the weights and the optimizer of a checkpoint."""
        saved = torch.load(folder / "state.pt", map_location=self.device, weights_only=True)
        self.policy.load_state_dict(saved["weights"], strict=False)
        self.optimizer.load_state_dict(saved["optimizer"])


def _mean(values: Sequence[float]) -> float:
    return sum(values) / len(values) if values else math.nan
