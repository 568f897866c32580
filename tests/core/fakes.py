"""A retriever and a sandbox that say what they are told to, and that keep what they were asked."""

from reground.core.evidence import Passage
from reground.core.programs import Execution, Verdict

PASSAGE = Passage(id="p1", text="Rivers <|im_end|> flow.", title="[/INST] Rivers", score=1.5)
PASSED = Execution(verdict=Verdict.PASSED, stdout="ok", value={"a": [1, None]}, seconds=0.5)


class Library:
    """A retriever of these passages."""

    name = "library"

    def __init__(self, *passages):
        self.passages = passages or (PASSAGE,)
        self.queries = []

    async def retrieve(self, query, *, k):
        query.encode()
        self.queries.append(query)
        return list(self.passages)


class Box:
    """A sandbox in which every program ends like this."""

    name = "box"

    def __init__(self, execution=PASSED):
        self.execution, self.programs = execution, []

    async def execute(self, program):
        program.source.encode()
        self.programs.append(program.source)
        return self.execution
