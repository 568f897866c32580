"""Runs, traces and trees to look at: a real method over a scripted model, and hostile texts."""

from pathlib import Path

from reground.core.answers import Citation, Sentence
from reground.core.run import Run, solve
from reground.core.trajectory import Candidate, ChooseStep, Failure, NoteStep, Pair, ScoreStep, Step, Trajectory
from reground.evaluation.results import Record, RunConfig, RunFolder, open_run, summarise, write_stored
from reground.evaluation.task import Score
from tests.methods.helpers import PASSAGES
from tests.methods.test_rat import QUESTION, rat

HOSTILE = (
    "</script><script>alert(1)</script><img src=x onerror=\"document.title='broken'\"><!-- <b>bold</b> "
    "javascript:alert(2) \u202e reversed \x00 &lt;i&gt;"
)


async def told(id: str = "q0", question: str = QUESTION) -> Trajectory:
    """RAT on a question about rivers: drafts, queries, revisions, and an answer with one supported sentence."""
    trajectory = (await solve(rat(), question, Run(run_id="r", question_id=id), id=id, name="rat")).trajectory
    assert trajectory.answer is not None
    support = Citation.of(1, PASSAGES[1], PASSAGES[1].text).model_copy(update={"place": "slide 3"})
    sentences = (
        Sentence(text="Vienna lies on the Danube river. ", score=0.9, supports=(support,)),
        Sentence(text="The Danube has 2850 km. ", score=0.1),
        Sentence(text="Hm."),
    )
    changed = {"text": "".join(s.text for s in sentences), "sentences": sentences, "misquoted": ("It has 3000 km.",)}
    answer = trajectory.answer.model_copy(update=changed)
    return trajectory.model_copy(update={"answer": answer, "steps": (*trajectory.steps, *judged())})


def judged() -> tuple[Step, ...]:
    """A critic's scores, a choice between candidates, and a note."""
    candidates = (
        Candidate(text="Look the Danube up.", score=0.8, logprob=-0.2),
        Candidate(text="Guess.", score=0.3, discarded="no query in it"),
    )
    pairs = (
        Pair(context="What next?", candidate="Look the Danube up."),
        Pair(context="What next?", candidate="Guess."),
    )
    return (
        ScoreStep(span="", ordinal=90, name="rate", critic="prompted:m/one", pairs=pairs, scores=(0.8, 0.3)),
        ChooseStep(
            span="", ordinal=91, name="SUBGOAL", by="prompted", context="What next?", candidates=candidates, chosen=0
        ),
        NoteStep(span="", ordinal=92, name="ended early", data={"why": "the tokens", "left": [1, 2]}),
    )


def hostile(trajectory: Trajectory) -> Trajectory:
    """The same with hostile text wherever text of a model, a document or a server goes."""
    data = trajectory.model_dump(mode="json")

    def poison(value: object, key: str = "") -> object:
        if isinstance(value, dict):
            return {name: poison(each, name) for name, each in value.items()}
        if isinstance(value, list):
            return [poison(each, key) for each in value]
        kept = {"version", "kind", "role", "verdict", "id", "span"}
        return f"{HOSTILE} {value}" if isinstance(value, str) and key not in kept else value

    return Trajectory.model_validate(poison(data) | {"method": "rat", "stopped": None})


def failed(id: str) -> Trajectory:
    """A question that ended with an error."""
    failure = Failure(type="ModelError", message="the server said nothing")
    return Trajectory(id=id, question="Why is there no answer?", method="rat", failure=failure)


def config(method: str = "rat", **more: object) -> RunConfig:
    """The configuration of a run."""
    known = {"task": "rivers", "data": "d", "primary": "em", "form": "phrase", "model": "m/one", "limit": 10}
    return RunConfig.model_validate({**known, "method": method, **more})


def record(trajectory: Trajectory, value: float | None, why: str = "") -> Record:
    """The scores of a question."""
    return Record(
        id=trajectory.id,
        example=trajectory.id.partition("~")[0],
        repeat=0,
        scores={} if trajectory.failure else {"em": Score(value=value, why=why)},
        answer="" if trajectory.failure else "the Danube",
        usage=trajectory.usage,
        seconds=trajectory.seconds,
        failure=trajectory.failure,
    )


async def run_folder(path: Path, method: str = "rat", *, questions: int = 3, finished: bool = True) -> RunFolder:
    """A run of some questions: right, wrong, half, and so on; the last one failed."""
    values = (1.0, 0.0, 0.5)
    trajectory = await told()
    with open_run(path, config(method)) as folder:
        records = []
        for n in range(questions):
            each = trajectory.model_copy(update={"id": f"q{n}~0", "question": f"{QUESTION} ({n})"})
            each = failed(f"q{n}~0") if n == questions - 1 else each
            folder.append(each)
            records.append(record(each, values[n % 3], "as the judge said"))
            folder.append_record(records[-1])
        if finished:
            write_stored(folder.path / "summary.json", summarise(folder.config, records, expected=len(records)))
    return folder
