"""The program in a reply: chosen by what it defines, with what it needs, as chat models lay replies out."""

import json

import pytest

from reground.core.answers import PAL
from reground.core.code_blocks import extract_program
from tests.data import need_data

AREA = "def area(radius):\n    return math.pi * square(radius)"
SQUARE = "def square(value):\n    return value**2"


def fenced(*blocks: str, language: str = "python") -> str:
    return "\n\nThen:\n\n".join(f"```{language}\n{block}\n```" for block in blocks)


@pytest.mark.parametrize(
    "reply",
    [
        fenced("import math", SQUARE, AREA),
        fenced(f"import math\n{SQUARE}", AREA, "print(area(2))"),
        fenced(AREA, SQUARE, "import math"),
        fenced("import math", SQUARE, AREA, "assert area(2) == 5"),
        fenced("import math", SQUARE, AREA, "from answer import area\n\nprint(area(int(input())))"),
        fenced("import math", SQUARE, AREA, "square = area(2)\nprint(square)"),
        fenced("import math", SQUARE, AREA, "def test_area():\n    assert area(1) == 5\n\ntest_area()"),
        fenced(f"import math\n{AREA}\n{SQUARE}\n\nradius = float(input('Radius: '))\nprint(area(radius))"),
        fenced(
            f"import math\n{AREA}\n{SQUARE}\n\nif __name__ == '__main__':\n    import unittest\n    unittest.main()"
        ),
        fenced(f"import math\n{AREA}\n{SQUARE}\n\ndef main():\n    print(area(float(input())))\n\nmain()"),
        fenced(f"import math\n{AREA}\n{SQUARE}\n\nfor r in (1, 'x'):\n    print(area(r))\nassert square(2) == 5"),
        fenced("def area(radius):\n    return 5", f"import math\n{AREA}\n{SQUARE}"),
        fenced(f"import math\n{AREA}\n{SQUARE}", "def area(radius):\n    return (") + "\n",
        fenced(f"import math\n{AREA}\n{SQUARE}", language="") + "\n```bash\npip install x\n```\n```\n12.56\n```",
        fenced("import math\narea = lambda r: math.pi * r * r", "print(area(1))"),
        f"Here's the function:\n\nimport math\n\n{AREA}\n\n{SQUARE}\n\nIt's the formula. Don't worry.",
        f"Here is it:\nimport math\n{SQUARE}\nNow the area:\n{AREA}\n\nExplanation\n\nNote: simple",
        "Sure:\n\n    import math\n\n    def area(radius):\n        return math.pi * radius**2\n\nThat is all.",
    ],
)
def test_a_program_that_defines_what_was_asked_is_found(reply: str) -> None:
    space: dict[str, object] = {"__name__": "__main__"}
    exec(extract_program(reply, ("area",)), space)
    assert space["area"](2) == pytest.approx(12.566, abs=0.001)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("reply", "source"),
    [
        (fenced(SQUARE, "print(square(2))"), SQUARE),
        (fenced(SQUARE, "assert square(2) == 4", "```\n4\n"), SQUARE),
        (fenced("import math", SQUARE, AREA), f"import math\n\n{SQUARE}\n\n{AREA}"),
        (fenced("import math", AREA, SQUARE), f"import math\n\n{AREA}\n\n{SQUARE}"),
        (fenced(SQUARE, "def main():\n    print(square(2))"), f"{SQUARE}\n\ndef main():\n    print(square(2))"),
        (fenced(AREA, "def area(radius):\n    return 3 * radius**2"), "def area(radius):\n    return 3 * radius**2"),
        (fenced(SQUARE, "def test_square():\n    assert square(2) == 4"), SQUARE),
        (fenced(SQUARE, "def square(value):\n    return (value"), SQUARE),
        (fenced("square = lambda v: v * v", "print(square(2))"), "square = lambda v: v * v\n\nprint(square(2))"),
        (f"The code:\n\n{SQUARE}\n\nIt squares.", SQUARE),
        (f"{SQUARE}\n\nprint(square(2))  # tries it", f"{SQUARE}\n\nprint(square(2))  # tries it"),
        ("It is 4.\nFor example, 2 * 2 = 4.", "It is 4.\nFor example, 2 * 2 = 4."),
    ],
)
def test_without_a_name_it_is_the_last_program_that_no_other_needs(reply: str, source: str) -> None:
    assert extract_program(reply) == source


READS = "n = int(input())\nprint(n * 2)"


@pytest.mark.parametrize(
    ("reply", "source"),
    [
        (fenced("print(1)", READS, "5", language=""), READS),
        (fenced(READS) + "\nRun:\n```bash\npython a.py\n```\n```\nprint(5)\n```", READS),
        (fenced(SQUARE, "print(square(int(input())))"), f"{SQUARE}\n\nprint(square(int(input())))"),
        (fenced("def main():\n    print(input())", "main()"), "def main():\n    print(input())\n\nmain()"),
        (
            fenced(f"def twice(n):\n    return n + n\n{READS}", "print(twice(2))"),
            f"def twice(n):\n    return n + n\n{READS}",
        ),
        (fenced("import sys", "print(sys.stdin.read())"), "import sys\n\nprint(sys.stdin.read())"),
        (fenced("print('Hello')", "```text\nHello\n"), "print('Hello')"),
        (f"The program is:\n\n{READS}\n\nIt doubles the number.", READS),
    ],
)
def test_a_program_that_reads_its_input_is_the_last_that_acts(reply: str, source: str) -> None:
    assert extract_program(reply, reads_input=True) == source


@pytest.mark.parametrize(
    "source",
    [
        "import sys\nsys.setrecursionlimit(10**6)\nTABLE = [0] * 9\nfor i in range(9):\n    TABLE[i] = i\n\n\n"
        "def f(n):\n    return TABLE[n]",
        "from functools import lru_cache\n\ndef f(n):\n    return n and f(n - 1)\n\nf = lru_cache(None)(f)",
        "class Node:\n    pass\n\n\nROOT = Node()\nROOT.next = ROOT\n\n\ndef f(n):\n    return ROOT.next",
        'PATTERN = "\\d"\n\ndef f(n):\n    """Doc.\n\n    >>> f(1)\n    """\n    return n  # input()',
    ],
)
def test_what_a_program_needs_stays_as_it_is(source: str) -> None:
    assert extract_program(fenced(source), ("f",)) == source
    assert extract_program(source, ("f",)) == source


def test_pal_asks_for_a_solution() -> None:
    solution = "def solution():\n    return 6 * 7"
    assert PAL.extract(fenced(solution, "print(solution())") + "\n```text\n42\n```") == solution
    assert PAL.extract(
        fenced("import math", solution.replace("6", "math.pi"), "result = solution()\nprint(result)")
    ) == ("import math\n\n" + solution.replace("6", "math.pi"))


def test_reference_programs_pass_unchanged() -> None:
    path = need_data("humaneval", "HumanEval.jsonl")
    for record in map(json.loads, path.read_text().splitlines()):
        whole = (record["prompt"] + record["canonical_solution"]).strip("\n")
        for source in (whole, record["canonical_solution"].strip("\n")):
            for reply in (fenced(source), source, f"Here:\n{fenced(source)}\nIt's right."):
                assert extract_program(reply) == source
                assert extract_program(reply, (record["entry_point"],)) == source
