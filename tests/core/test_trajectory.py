import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from reground.core.errors import DataError
from reground.core.trajectory import Trajectory, append_trajectory, read_trajectories, write_trajectories
from tests.core.strategies import trajectories

relaxed = settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])


@relaxed
@given(st.lists(trajectories, max_size=4))
def test_a_file_of_trajectories_is_read_back_as_it_was(tmp_path, several):
    written, appended = tmp_path / "sub" / "written.jsonl", tmp_path / "appended.jsonl"
    appended.unlink(missing_ok=True)
    write_trajectories(written, several)
    for each in several:
        append_trajectory(appended, each)
    assert list(read_trajectories(written)) == several
    if several:
        assert appended.read_bytes() == written.read_bytes()


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{not json", "not a trajectory of version 2"),
        ('{"version": 3, "id": "1", "question": "q", "method": "m"}', "version"),
        ('{"id": "1", "question": "q"}', "method"),
        ('{"id": "1", "question": "q", "method": "m", "colour": "red"}', "colour"),
        ('{"version": 1, "id": "1", "question": "q", "method": "m"}', "version"),
        ('{"id": "1", "question": "q", "method": "m", "steps": [{"kind": "dream"}]}', "steps.0"),
    ],
)
def test_a_bad_line_is_named(tmp_path, line, why):
    path = tmp_path / "t.jsonl"
    good = Trajectory(id="1", question="q", method="m").model_dump_json()
    path.write_text(f"{good}\n{line}\n", encoding="utf-8")
    with pytest.raises(DataError, match=why) as caught:
        list(read_trajectories(path))
    assert (caught.value.path, caught.value.line) == (path, 2)
    assert str(caught.value).startswith(f"{path}:2: ")


def test_a_line_cut_off_by_a_crash_is_named(tmp_path):
    path = tmp_path / "t.jsonl"
    append_trajectory(path, Trajectory(id="1", question="q", method="m"))
    path.write_bytes(path.read_bytes()[:-10])
    with pytest.raises(DataError, match=":1: not a trajectory"):
        list(read_trajectories(path))


def test_a_file_is_replaced_whole(tmp_path):
    path = tmp_path / "t.jsonl"
    write_trajectories(path, [Trajectory(id=str(n), question="q", method="m") for n in range(3)])

    def fails():
        yield Trajectory(id="new", question="q", method="m")
        raise RuntimeError("the disk is gone")

    with pytest.raises(RuntimeError):
        write_trajectories(path, fails())
    assert [each.id for each in read_trajectories(path)] == ["0", "1", "2"]
