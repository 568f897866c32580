"""Worked examples for few-shot prompts, written for reground. A test checks that none is in a benchmark."""

from __future__ import annotations

from reground.core.answers import Demonstration

MULTI_HOP = (
    Demonstration(
        question="What is the capital of the country whose national flag is neither square nor rectangular?",
        reasoning="The only national flag that is neither square nor rectangular is that of Nepal, which joins two "
        "pennants. The capital of Nepal is Kathmandu.",
        answer="Kathmandu",
    ),
    Demonstration(
        question="Which lake is deeper, Lake Baikal or Lake Tanganyika?",
        reasoning="Lake Baikal is at most about 1,640 metres deep. Lake Tanganyika is at most about 1,470 metres deep. "
        "1,640 is more than 1,470.",
        answer="Lake Baikal",
    ),
    Demonstration(
        question="On what date was the chemist born after whom element 101 is named?",
        reasoning="Element 101 is mendelevium, named after Dmitri Mendeleev. Mendeleev was born on 8 February 1834.",
        answer="8 February 1834",
    ),
    Demonstration(
        question="Do the rivers Douro and Ebro both reach the sea in Portugal?",
        reasoning="The Douro reaches the Atlantic at Porto, in Portugal. The Ebro reaches the Mediterranean in "
        "Catalonia, in Spain. So only one of them does.",
        answer="no",
    ),
    Demonstration(
        question="In which village was the composer of the opera Luisa Miller born?",
        reasoning="Luisa Miller was composed by Giuseppe Verdi. Verdi was born in the village of Le Roncole.",
        answer="Le Roncole",
    ),
)

SINGLE_HOP = (
    Demonstration(
        question="who is the father of triton in greek mythology",
        reasoning="Triton is the son of Poseidon and Amphitrite.",
        answer="Poseidon",
    ),
    Demonstration(
        question="In which city did the painter Giorgio Morandi spend his whole life?",
        reasoning="Morandi was born, worked and died in Bologna.",
        answer="Bologna",
    ),
    Demonstration(
        question="in what year was the suspension bridge over the menai strait opened",
        reasoning="Thomas Telford's Menai Suspension Bridge was opened in January 1826.",
        answer="1826",
    ),
    Demonstration(
        question="What is the occupation of Nadia Boulanger?",
        reasoning="Nadia Boulanger taught composition to generations of musicians and conducted.",
        answer="music teacher",
    ),
)

YES_NO = (
    Demonstration(
        question="Could a giraffe stand upright inside an ordinary living room?",
        reasoning="A grown giraffe is four to six metres tall. An ordinary living room is about two and a half metres "
        "high. Four is more than two and a half.",
        answer="no",
    ),
    Demonstration(
        question="Would a swimmer find it easier to float in the Dead Sea than in Lake Geneva?",
        reasoning=(
            "The Dead Sea is about a third salt, so its water is denser than fresh water. Denser water lifts more."
        ),
        answer="yes",
    ),
)

CHINESE_CHOICE = (
    Demonstration(
        question="下列河流中，最终注入北冰洋的是\nA. 澜沧江\nB. 额尔齐斯河\nC. 珠江\nD. 黑龙江",
        reasoning="额尔齐斯河汇入鄂毕河，最终注入北冰洋；澜沧江、珠江和黑龙江都属于太平洋水系。",
        answer="B",
    ),
    Demonstration(
        question="下列物质中，属于蛋白质的有\nA. 胰岛素\nB. 纤维素\nC. 血红蛋白\nD. 葡萄糖",
        reasoning="胰岛素和血红蛋白由氨基酸构成，属于蛋白质；纤维素是多糖，葡萄糖是单糖。",
        answer="AC",
    ),
    Demonstration(
        question="下列战役中，发生在楚汉相争期间的是\nA. 长平之战\nB. 垓下之战\nC. 赤壁之战\nD. 淝水之战",
        reasoning="垓下之战在公元前202年，刘邦击败项羽；长平之战在战国，赤壁之战在东汉末年，淝水之战在东晋。",
        answer="B",
    ),
)

THEOREM = (
    Demonstration(
        question="Does every absolutely convergent series of real numbers converge?\nThe answer is True or False.",
        reasoning=(
            "The partial sums of an absolutely convergent series form a Cauchy sequence, and the reals are complete."
        ),
        answer="True",
    ),
    Demonstration(
        question="How many diagonals does a convex polygon with nine corners have?\nThe answer is a whole number.",
        reasoning="Each of the 9 corners is joined with 9 - 3 = 6 others, and every diagonal is counted twice: 27.",
        answer="27",
    ),
    Demonstration(
        question="What area does the ellipse x^2/9 + y^2/4 = 1 enclose?\nThe answer is a number.",
        reasoning="The semi-axes are 3 and 2, and the area is pi times their product: 6 pi = 18.85.",
        answer="18.85",
    ),
    Demonstration(
        question="Which remainders does a square leave when it is divided by 8?\n"
        "The answer is a list of whole numbers.",
        reasoning="The square of an odd number leaves 1, of an even number 0 or 4.",
        answer="[0, 1, 4]",
    ),
)
