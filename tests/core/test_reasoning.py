"""What a reasoning model thinks is told apart from what it says, whichever adapter it came through."""

import re

import pytest

from reground.core.language import Reply, TokenLogprob
from reground.core.reasoning import separate


def tokens(*pairs: tuple[str, float]) -> tuple[TokenLogprob, ...]:
    return tuple(TokenLogprob(token=token, logprob=logprob) for token, logprob in pairs)


HARMONY = "<|channel|>analysis<|message|>{}<|end|><|start|>assistant<|channel|>final<|message|>{}"


@pytest.mark.parametrize(
    ("said", "reasoning", "text"),
    [
        ("Plain.", None, "Plain."),
        ("<think>\nHm, 2+2.\n</think>\n\nAnswer: 4", "Hm, 2+2.", "Answer: 4"),
        ("\n <think></think>\n\nAnswer: 4", "", "Answer: 4"),
        ("<think>never ends, cut by the", "never ends, cut by the", ""),
        ("<think>a</think>\n<think>b</think>4", "a\n\nb", "4"),
        ("<think>Qwen ends with `</think>`.\n</think>\n\n4", "Qwen ends with `</think>`.", "4"),
        ("<thinking> a <reflection>b</reflection> c </thinking>\n4", "a <reflection>b</reflection> c", "4"),
        ("<Thought>a</Thought>\n<Reasoning>b</REASONING> 4", "a\n\nb", "4"),
        ("<thoughts>a</thoughts><reflection>b</reflection>4", "a\n\nb", "4"),
        ("<seed:think>a</seed:think>4", "a", "4"),
        ("<think_fast>a</think_fast>4", "a", "4"),
        ("[THINK]a[/THINK]4", "a", "4"),
        ("[think]a[/think]\n4", "a", "4"),
        ("◁think▷a◁/think▷4", "a", "4"),
        ("◁think▷never ends", "never ends", ""),
        ("<|think|>a<|/think|>4", "a", "4"),
        ("<|begin_of_thought|>\na\n<|end_of_thought|>\n\n<|begin_of_solution|>4<|end_of_solution|>", "a", "4"),
        ("<|START_THINKING|>a<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>", "a", "4"),
        ("<think>a</think>\n<answer>\n4\n</answer>", "a", "4"),
        ("<think>a</think><output>4", "a", "4"),
        ("<think>a</think>The answer is <answer>4</answer>.", "a", "The answer is <answer>4</answer>."),
        (HARMONY.format("a", "4"), "a", "4"),
        (HARMONY.format("a", "4<|return|>"), "a", "4"),
        ("<|start|>assistant" + HARMONY.format("a", "4"), "a", "4"),
        (HARMONY.format("a", "4").replace("<|", "< |").replace("|>", "| >"), "a", "4"),
        (HARMONY.format("a", "4").replace("final", "final <|constrain|>json"), "a", "4"),
        ("<|channel|>analysis<|message|>never ends", "never ends", ""),
        ("<|channel|>final<|message|>4<|return|>", "", "4"),
        ("analysisWe add 2 and 2.assistantfinal4", "We add 2 and 2.", "4"),
        ("analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>4", "a", "4"),
        ("Here is my thought process:\na\n\nHere is my response:\n4", "a", "4"),
        ("<think>a</thinking>4", "a", "4"),
        ("<thinking>a</think>\n4", "a", "4"),
        ("<think_start>a<think_end>4", "a", "4"),
        ("<|channel>thought\na<channel|>4", "a", "4"),
        ("<|inner_prefix|>a<|inner_suffix|>4", "a", "4"),
        ("<unused94>thought\na<unused95>4", "a", "4"),
        ("<scratchpad>a</scratchpad>\n4", "a", "4"),
        ("<inner_monologue>a</inner_monologue>4", "a", "4"),
        # a word stands before it
        ("Sure! <think>\na\n</think>\n\n4", "Sure! <think>\na", "4"),
        ("assistant\n<thought>a</thought>4", "assistant\n<thought>a", "4"),
        # the opening stands in the prompt
        ("Hm, 2+2.\n</think>\n\nAnswer: 4", "Hm, 2+2.", "Answer: 4"),
        ("Hm, 2+2. </think> four", "Hm, 2+2.", "four"),
        ("So it is 4\n</thinking>\nfour", "So it is 4", "four"),
        ('It is "4"</seed:think>Four', 'It is "4"', "Four"),
        ("</think>\n\nFour", "", "Four"),
        ("a◁/think▷Four", "a", "Four"),
        ("a\n<|END_THINKING|><|START_RESPONSE|>4<|END_RESPONSE|>", "a", "4"),
        ("a<|end|><|start|>assistant<|channel|>final<|message|>4", "a", "4"),
    ],
)
def test_a_thought_is_taken_out_of_the_text(said: str, reasoning: str | None, text: str) -> None:
    reply = separate(Reply(text=said))
    assert (reply.reasoning, reply.text) == (reasoning, text)
    assert separate(reply) == reply


@pytest.mark.parametrize("said", ["[THINK]a", "analysisWe add", "Here is my thought process:\na"])
def test_an_opening_that_may_be_plain_text_shows_a_thought_only_where_the_reply_was_cut(said: str) -> None:
    assert separate(Reply(text=said)).reasoning is None
    assert separate(Reply(text=said, finish_reason="length")).text == ""


PLAIN = [
    "The tag <think> opens a thought.", "The tags <think> and </think> frame a thought.",
    "A model ends its thought with </think> and then answers.",
    "It ends with `</think>`, and `<|END_THINKING|>` is the same.", "It ends (</think>). Then comes the answer.",
    "</think> closes a thought.", "Write [THINK] first and [/THINK] after it.",
    "[THINK] opens the thoughts of Magistral.", "[thinking]\nenabled = true\n\n[thinking.limits]\ntokens = 64",
    "<html>\n<body>\n<thinking>\nHm.\n</thinking>\n</body>\n</html>", '<thinkpad model="X1">new</thinkpad>',
    '```python\nTAGS = ("<think>", "</think>")\n```', 'answer = reply.split("</think>")[-1].strip()',
    'answer = re.sub(r".*</think>\\s*", "", reply)', "answer = reply.split('</think>')[-1]",
    "The template writes:\n\n```\n<|im_start|>assistant\n</think>\n\n```\n\nThen the model goes on.",
    "First comes <|channel|>analysis<|message|>, then <|channel|>final<|message|> and the answer.",
    "It looks so:\n<think>\nI add.\n</think>\nThen comes the answer.", "Write <think>Hm.</think> first.",
    "The token <unused94> is free, as is <unused95>.", "<unused94> is a spare token.",
    "analysis of variance", "analysis: the poem has four stanzas.",
    "Here is my thought process: first I add, then I divide.", "<answer>4</answer>",
]  # fmt: skip


@pytest.mark.parametrize("said", PLAIN)
def test_a_text_that_speaks_of_such_tags_stays_whole(said: str) -> None:
    assert separate(Reply(text=said)) == Reply(text=said)


CHANNEL = [*re.findall(r"<\|\w+\|>|\w+", HARMONY.format("hm", "Four")), "<|return|>"]


@pytest.mark.parametrize(
    ("pieces", "text", "kept"),
    [
        (["<think>", "hm", "</think>", "\n\n", "Four", "."], "Four.", slice(4, 6)),
        (["<think>", "4", "</think>", "<answer>", "4", "</answer>"], "4", slice(4, 5)),
        (CHANNEL, "Four", slice(-2, -1)),
    ],
    ids=["tags", "tags around the answer", "channels"],
)
def test_log_probabilities_are_those_of_the_answers_tokens(pieces: list[str], text: str, kept: slice) -> None:
    said = tokens(*((piece, -float(i)) for i, piece in enumerate(pieces)))
    reply = separate(Reply(text="".join(pieces), token_logprobs=said))
    assert (reply.text, reply.token_logprobs) == (text, said[kept])


def test_a_token_that_ends_the_thought_and_begins_the_answer_is_cut() -> None:
    said = tokens(("hm</", -5.0), ("think>Fo", -1.0), ("ur", -2.0), ("<|end|>", 0.0))
    reply = separate(Reply(text="hm</think>Four", token_logprobs=said))
    assert reply.token_logprobs == tokens(("Fo", -1.0), ("ur", -2.0))


def test_a_server_that_names_the_thought_apart_but_not_its_log_probabilities() -> None:
    said = tokens(("hm", -5.0), ("</think>", 0.0), ("\n", 0.0), ("Four", -1.0), ("<eos>", -9.0))
    for given, kept in ((said, said[3:4]), (said[3:4], said[3:4]), (said[:1], None)):
        assert separate(Reply(text="Four", reasoning="hm", token_logprobs=given)).token_logprobs == kept
