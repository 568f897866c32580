"""The language that a text is probably written in."""

from __future__ import annotations

import pytest

from reground.text.sentences import likely_language

TEXTS = {
    "cs": "Praha je hlavní město, které se nachází na řece Vltavě.",
    "da": "København er hovedstaden i Danmark, og den ligger på Sjælland ved Øresund.",
    "de": "Die Donau fließt durch Wien und mündet in das Schwarze Meer.",
    "el": "Η Αθήνα είναι η πρωτεύουσα της Ελλάδας.",
    "es": "El río pasa por la ciudad y desemboca en el mar.",
    "fi": "Helsinki on Suomen pääkaupunki, ja se perustettiin vuonna 1550.",
    "fr": "Le fleuve traverse la ville et se jette dans la mer.",
    "hu": "Budapest a magyar főváros, és az egy nagy város.",
    "it": "Il fiume che attraversa la città è uno dei più lunghi.",
    "nl": "De rivier stroomt door het land en mondt uit in zee.",
    "pl": "Warszawa jest stolicą i leży nad Wisłą, a nie nad Odrą.",
    "pt": "O rio não passa pela cidade, mas desagua em um lago.",
    "ro": "Dunărea este un fluviu care se varsă în Marea Neagră și trece prin Viena.",
    "ru": "Москва является столицей России (Moscow).",
    "sv": "Stockholm är huvudstaden i Sverige och det ligger på öar.",
    "tr": "İstanbul büyük bir şehir ve çok kalabalık.",
    "uk": "Київ є столицею України.",
}


@pytest.mark.parametrize(("language", "text"), TEXTS.items())
def test_a_sentence_tells_its_language(language: str, text: str) -> None:
    assert likely_language(text) == language


@pytest.mark.parametrize(
    "text",
    [
        "",
        "Paris",
        "42",
        "Der Spiegel is a German magazine.",
        "Die Hard is a film.",
        "I do not know.",
        "El Niño",
        "Leo Tolstoy wrote War and Peace (Война и мир).",
        "北京是中国的首都。",
    ],
)
def test_what_is_english_or_tells_nothing_is_taken_for_english(text: str) -> None:
    assert likely_language(text) == "en"
