"""Control tokens of public model families, as their tokenizers spell them, and texts that must not be taken for one."""

from __future__ import annotations


def _each(template: str, names: str) -> list[str]:
    return [template.format(name) for name in names.split()]


FAMILIES: dict[str, list[str]] = {
    "llama 2": [
        "<s>",
        "</s>",
        "<unk>",
        "[INST]",
        "[/INST]",
        "<<SYS>>",
        "<</SYS>>",
        "<pad>",
        "<PRE>",
        "<SUF>",
        "<MID>",
        "<EOT>",
    ],
    "llama 3": _each(
        "<|{}|>",
        "begin_of_text end_of_text start_header_id end_header_id eot_id eom_id python_tag finetune_right_pad_id image"
        " reserved_special_token_0 reserved_special_token_246 step_id",
    ),
    "llama 4": _each(
        "<|{}|>",
        "header_start header_end eot eom image_start image_end patch tile_x_separator tile_y_separator fim_prefix"
        " fim_middle fim_suffix text_post_train_reserved_special_token_3 python_start python_end",
    ),
    "mistral": [
        *_each(
            "[{}]",
            "INST /INST SYSTEM_PROMPT /SYSTEM_PROMPT AVAILABLE_TOOLS /AVAILABLE_TOOLS TOOL_CALLS TOOL_RESULTS "
            "/TOOL_RESULTS"
            " TOOL_CONTENT IMG IMG_BREAK IMG_END PREFIX MIDDLE SUFFIX THINK /THINK ARGS CALL_ID MODEL_SETTINGS"
            " /MODEL_SETTINGS AUDIO BEGIN_AUDIO TRANSCRIBE",
        ),
        "<pad>",
        "<SPECIAL_20>",
        "<SPECIAL_999>",
    ],
    "qwen": [
        *_each(
            "<|{}|>",
            "im_start im_end endoftext object_ref_start object_ref_end box_start box_end quad_start quad_end "
            "vision_start vision_end vision_pad image_pad video_pad fim_prefix fim_middle fim_suffix fim_pad repo_name "
            "file_sep extra_0 audio_bos audio_eos AUDIO",
        ),
        "<tool_call>",
        "</tool_call>",
        "<tool_response>",
        "</tool_response>",
        "<think>",
        "</think>",
        "<ref_start>",
        "<img_start>",
    ],
    "gemma": [
        *_each(
            "<{}>",
            "bos eos pad unk mask start_of_turn end_of_turn start_of_image end_of_image image_soft_token start_of_audio"
            " end_of_audio audio_soft_token unused0 unused99 unused6241 2mass start_function_call end_function_call"
            " start_function_response end_function_response start_function_declaration end_function_declaration escape"
            " loc0000 loc1023 seg001 seg127",
        ),
        "[@BOS@]",
        "[multimodal]",
    ],
    "phi": _each(
        "<|{}|>",
        "system user assistant end endoftext endoftext10 placeholder1 placeholder6 im_sep tool /tool tool_call "
        "/tool_call tool_response image_1 audio_1 dummy_85 fim_prefix",
    ),
    "deepseek": [
        *_each(
            "<｜{}｜>",
            "begin▁of▁sentence end▁of▁sentence User Assistant fim▁begin fim▁hole fim▁end ▁pad▁ tool▁calls▁begin"
            " tool▁calls▁end tool▁call▁begin tool▁call▁end tool▁sep tool▁outputs▁begin tool▁output▁end DSML",
        ),
        "<|EOT|>",
        "<|User|>",
        "<think>",
        "</think>",
    ],
    "yi": [
        "<|startoftext|>",
        "<|endoftext|>",
        "<|im_start|>",
        "<|im_sep|>",
        "<reponame>",
        "<file_sep>",
        "<fim_prefix>",
        "<fim_pad>",
    ],
    "command r": _each("<{}>", "BOS_TOKEN EOS_TOKEN PAD_TOKEN UNK_TOKEN MASK_TOKEN EOP_TOKEN CLS SEP UNK PAD EOP_TOKEN")
    + _each(
        "<|{}|>",
        "START_OF_TURN_TOKEN END_OF_TURN_TOKEN USER_TOKEN CHATBOT_TOKEN SYSTEM_TOKEN USER_0_TOKEN BAD_TOKEN YES_TOKEN"
        " NO_TOKEN GOOD_TOKEN START_THINKING END_THINKING START_RESPONSE END_RESPONSE START_ACTION END_ACTION"
        " START_TOOL_RESULT END_TOOL_RESULT EXTRA_0_TOKEN NEW_FILE BEGINNING_OF_PREFIX_FIM_TOKEN",
    ),
    "glm": [
        "[MASK]",
        "[gMASK]",
        "[sMASK]",
        "<sop>",
        "<eop>",
        "<eod>",
        "<think>",
        "</think>",
        *_each(
            "<|{}|>",
            "system user assistant observation endoftext begin_of_image end_of_image begin_of_video code_prefix",
        ),
        "<tool_call>",
        "<|begin_of_transcription|>",
    ],
    "chatglm": ["[CLS]", "[SEP]", "[UNK]", "<eop>", "<unk>", "<pad>", "<mask>", "<image_100>"],
    "exaone": [
        *_each("[|{}|]", "system user assistant endofturn tool endoftool"),
        "[BOS]",
        "[EOS]",
        "[PAD]",
        "<|tool_start|>",
    ],
    "minimax": [
        "[e~[",
        "]~b]",
        "]~!b[",
        "]!p~[",
        "]!d~[",
        "]<]image[>[",
        "]<]start of image[>[",
        "]<]speech[>[",
        "<minimax:tool_call>",
        "</minimax:tool_call>",
        "<beginning_of_sentence>",
        "<end_of_sentence>",
        "<fim_middle>",
        "<filename>",
        "<reponame>",
        "<issue_start>",
        "<code_interpreter>",
        "<function_call>",
        "<pr_start>",
    ],
    "granite": [
        *_each("<|{}|>", "start_of_role end_of_role tool_call end_of_text start_of_cite end_of_cite start_of_plugin"),
        "<fim_prefix>",
        "<empty_output>",
        "<issue_comment>",
    ],
    "falcon": [
        f">>{name}<<"
        for name in [
            "TITLE",
            "ABSTRACT",
            "INTRODUCTION",
            "SUMMARY",
            "COMMENT",
            "ANSWER",
            "QUESTION",
            "DOMAIN",
            "PREFIX",
        ]
    ]
    + [">>SUFFIX<<", ">>MIDDLE<<", "<|im_end|>", "<|endoftext|>", "<|prefix|>"],
    "starcoder": _each(
        "<{}>",
        "fim_prefix fim_middle fim_suffix fim_pad repo_name file_sep issue_start issue_comment issue_closed "
        "jupyter_start jupyter_text jupyter_code jupyter_output jupyter_script empty_output code_to_intermediate "
        "intermediate_to_code"
        " pr pr_start pr_status pr_is_merged pr_base pr_file pr_base_code pr_diff pr_diff_hunk pr_comment pr_event_id"
        " pr_review pr_review_state pr_in_reply_to_review_id commit_before commit_msg commit_after gh_stars filename"
        " reponame",
    ),
    "internlm": [
        "<s>",
        "</s>",
        "<eoh>",
        "<eoa>",
        "<eosys>",
        "<TOKENS_UNUSED_1>",
        "<TOKENS_UNUSED_139>",
        "[UNUSED_TOKEN_145]",
        "[UNUSED_TOKEN_0]",
        *_each("<|{}|>", "action_start action_end interpreter plugin im_start"),
    ],
    "baichuan": [
        "<reserved_102>",
        "<reserved_103>",
        "<reserved_106>",
        "<reserved_107>",
        "<reserved_999>",
        "<B_SYS>",
        "<C_Q>",
    ],
    "nemotron": [
        "<extra_id_0>",
        "<extra_id_1>",
        "<extra_id_999>",
        "<SPECIAL_10>",
        "<SPECIAL_12>",
        "<think>",
        "[AVAILABLE_TOOLS]",
    ],
    "olmo": [
        "|||IP_ADDRESS|||",
        "|||EMAIL_ADDRESS|||",
        "|||PHONE_NUMBER|||",
        "<|padding|>",
        "<|endofprompt|>",
        "<functions>",
    ],
    "jamba": [*_each("<|{}|>", "startoftext endoftext pad unk bom eom"), "<|bos|>"],
    "hunyuan": _each("<|{}|>", "startoftext extra_0 extra_4 extra_5 eos bos hy_User hy_Assistant")
    + _each("<｜{}｜>", "hy_User hy_Assistant hy_begin▁of▁sentence hy_place▁holder▁no▁2")
    + ["<answer_start>", "<img_start>"],
    "kimi": [
        "[BOS]",
        "[EOS]",
        "[EOT]",
        "[UNK]",
        "[PAD]",
        "[extra_id_0]",
        "[extra_id_88]",
        *_each(
            "<|{}|>",
            "im_user im_assistant im_system im_middle im_end start_header_id media_start media_begin "
            "media_content media_end"
            " media_pad tool_calls_section_begin tool_calls_section_end tool_call_begin tool_call_argument_begin "
            "tool_call_end",
        ),
    ],
    "harmony": _each(
        "<|{}|>", "start end message channel return call constrain startoftext endoftext reserved_200000 endofprompt"
    ),
    "seed": [*_each("<seed:{}>", "bos eos pad think tool_call cot_budget_reflect"), "</seed:think>"],
    "ernie": [
        "<mask:0>",
        "<mask:7>",
        "<|begin_of_sentence|>",
        "<|end_of_sentence|>",
        "<|IMAGE_PLACEHOLDER|>",
        "<|IMAGE_START|>",
        "<mask:1>",
        "<cls>",
        "<sep>",
        "<pad>",
        "<|LOC_0|>",
        "<|CROSS_MODAL|>",
    ],
    "smollm": [
        "<|im_start|>",
        "<|im_end|>",
        "<repo_name>",
        "<jupyter_script>",
        "<think>",
        "<file_sep>",
        "<empty_output>",
    ],
    "t5 and ul2": [f"<extra_id_{n}>" for n in (0, 1, 50, 99)] + ["[S2S]", "[NLU]", "[NLG]", "<pad>", "</s>"],
    "bert": ["[CLS]", "[SEP]", "[PAD]", "[UNK]", "[MASK]", "[unused0]", "[unused99]", "[unused993]", "[BOS]", "[EOS]"],
    "chatml and others": [
        "<|im_sep|>",
        "<|fim_hole|>",
        "<|prompter|>",
        "<|assistant|>",
        "<|eot|>",
        "<|audio|>",
        "<|NAMESPACE|>",
    ],
    "lfm": _each(
        "<|{}|>", "tool_list_start tool_list_end tool_call_start tool_call_end tool_response_start image_thumbnail"
    ),
    "step and longcat": ["<longcat_tool_call>", "</longcat_tool_call>", "<longcat_think>", "<|CALL_START|>", "<|BOT|>"],
}
TOKENS = sorted({token for tokens in FAMILIES.values() for token in tokens})

HARMLESS = [
    *["", "a < b and b > c", "x[0] = y[1]", "if a | b: pass", "<p>html</p>", "def f() -> None: ..."],
    *[
        "List<T> and Map<String, List<S>>",
        "std::vector<int> v; std::map<size_t, my_type> m;",
        "Vec<u8>",
        "fn f<'a>(x: &'a str)",
    ],
    *['{"a": [1, 2, {"b": null}]}', "a[i] + a[i][j] - b[-1]", "as shown [1], [2, 3] and [4][5]", "[citation needed]"],
    *[
        "| a | b |\n|---|---|\n| 1 | 2 |",
        "+---+---+\n| a | b |\n+---+---+",
        "cat log | grep error | sort > out.txt 2>&1",
    ],
    *[
        "<a href='x'>link</a> <b>bold</b> <ul><li>one</li></ul>",
        '<div class="end">text</div><br/><pre>x</pre>',
        "<!-- note -->",
    ],
    *[
        "<table><tr><td>1</td></tr></table> <video src='a'></video>",
        "<image src='x'/>",
        "<h1>Title</h1>",
        "#include <stdio.h>",
    ],
    *["|x| < 1 and ||v|| >= 0", "P(A|B) = 1", "x >> 2 << 1", 'cout << "hi" << endl; cin >> x;', "a ||| b", "[|1; 2|]"],
    *[
        "- [ ] to do\n- [x] done",
        "[link](https://example.org/a_b?c=[d])",
        "![image](a.png)",
        "> quoted\n>> twice",
        "*[HTML]: x",
    ],
    *[
        "usage: tool [OPTIONS] <input_file> [--out DIR]",
        "[INFO] started",
        "[Errno 2]",
        "[a-z]+|[0-9]*",
        "^(?<name>\\w+)$",
    ],
    *[
        "$\\langle x | y \\rangle$",
        "[0, 1) ∪ (2, 3]",
        "~b] and [e]",
        "f : A -> B",
        "a => b",
        "x |> f |> g",
        "lambda x: x[:-1]",
    ],
    *[
        "<xs:element name='a'/>",
        "<svg:rect/>",
        "<T extends U>",
        "<Foo.Bar>",
        "<your name here>",
        "Dear <name>,",
        "5 < 6 > 4",
        "<3",
    ],
    *[
        "end of turn",
        "start_of_turn = 3",
        "tool_call(x)",
        "INST and SYS",
        "the EOS token",
        "<https://example.org>",
        "<me@x.org>",
    ],
]
