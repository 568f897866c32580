"""The words that other readers find."""

from benchmarks.readers import missing


def test_words_that_two_others_find_are_missing_however_they_are_written() -> None:
    others = ["The crane lifts 106 kg, as plan-\nned.", "the CRANE lifts 106 kg (planned) daily", "daily?"]
    assert missing("The crane: 10^6 kg", others, 2) == (7, ["lifts", "planned", "daily"])
