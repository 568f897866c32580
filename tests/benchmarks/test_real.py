"""What a cache could have served, as the benchmark on a real server counts it."""

from benchmarks.real import Read, reusable


def test_what_could_be_reused_is_the_longest_beginning_of_an_earlier_call() -> None:
    calls = [
        Read([1, 2, 3, 4, 9], prompt=4, began=0, ended=2),
        Read([1, 2, 5, 6], prompt=3, began=1, ended=3),  # the first has no reply yet
        Read([1, 2, 3, 4, 9, 8, 7], prompt=6, began=4, ended=5),  # goes on after the first one's reply
        Read([1, 2, 5, 6], prompt=3, began=6, ended=7),  # the same again: one token is read anyway
        Read([0], prompt=1, began=8, ended=9),
    ]
    assert reusable(calls, answered=False) == [0, 2, 5, 2, 0]
    assert reusable(calls, answered=True) == [0, 0, 5, 2, 0]
