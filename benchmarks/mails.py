"""Mails of known truth, and statements about them: right ones, and ones with another sender, date, amount or value.

Ten threads of three mails: an offer, an objection that quotes it, and a decision that quotes both. Each states an
amount and a date of its own, so that a value that was given up stands in the mail too, behind ">".
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from datetime import datetime, timedelta
from email.message import EmailMessage
from email.utils import format_datetime
from pathlib import Path

_PEOPLE = (
    "Ada Moreno", "Ben Okafor", "Carla Weiss", "Deniz Aydin", "Elin Strand", "Femi Balogun", "Greta Holm",
    "Hugo Lindt", "Iris Novak", "Jonas Petit", "Kira Sato", "Luca Ferri",
)  # fmt: skip
_THINGS = (
    "the new crane", "the office in Lyon", "the harbour lights", "the summer party", "the diesel pump", "the website",
    "the roof of hall 3", "the training of the pilots", "the two ferries", "the archive",
)  # fmt: skip
_OFFER = (
    "Hello {to},\n\nI can offer {thing} for {amount} euros. The work would begin on {day}.\n\nRegards\n{sender}",
    "Hi {to},\n\nour price for {thing} is {amount} euros, and we could start on {day}.\n\n{sender}",
)
_OBJECTION = (
    "Hi {to},\n\nthat is too much. For {thing} I would pay {amount} euros, with a start on {day}.\n\n{sender}",
    "Dear {to},\n\nwe cannot spend that on {thing}. I propose {amount} euros and a beginning on {day}.\n\n{sender}",
)
_DECISION = (
    "Dear both,\n\nthe board approved {amount} euros for {thing}. The work begins on {day}.\n\n{sender}",
    "Hello,\n\nit is decided: {amount} euros for {thing}, and we begin on {day}.\n\nBest\n{sender}",
)
_MAILS = (_OFFER, _OBJECTION, _DECISION)
_SAID = (
    ("{sender} offered {thing} for {amount} euros.", "{sender}'s offer for {thing} begins on {day}."),
    ("{sender} would pay {amount} euros for {thing}.", "{sender} proposed {day} as the start of {thing}."),
    (
        "{sender} wrote that {amount} euros were approved for {thing}.",
        "According to {sender}, {thing} begins on {day}.",
    ),
)
_WROTE = "{sender} wrote about {thing} on {sent}."


def mails(folder: Path, draw: random.Random) -> Iterator[tuple[str, str]]:
    """Write the mails into a folder, and give the statements about them, each behind its kind."""
    for number, thing in enumerate(_THINGS):
        people, sent, quoted = draw.sample(_PEOPLE, 4), datetime(2025, 1, 6, 9) + timedelta(days=17 * number), ""
        older: dict[str, str] = {}
        for kind, texts in enumerate(_MAILS):
            sent += timedelta(days=draw.randint(1, 4), minutes=draw.randint(0, 400))
            facts = {
                "thing": thing, "sender": people[kind], "to": people[1 - min(kind, 1)].split()[0],
                "amount": f"{draw.randint(21, 979) * 50:,}", "day": _day(sent + timedelta(days=draw.randint(20, 80))),
            }  # fmt: skip
            text = draw.choice(texts).format(**facts)
            mail = EmailMessage()
            mail["From"], mail["To"] = (f"{each} <{each.split()[0].lower()}@quay.example>" for each in
                                        (people[kind], people[1 - min(kind, 1)]))  # fmt: skip
            mail["Date"], mail["Subject"] = format_datetime(sent), f"{'Re: ' * kind}{thing[4:].capitalize()}"
            mail.set_content(text + quoted)
            (folder / f"{number}-{kind}.eml").write_bytes(bytes(mail))
            quoted = "\n\n" + "\n".join(f"> {line}".rstrip() for line in (text + quoted).split("\n"))
            facts["sent"] = _day(sent)
            yield from _statements(kind, facts, older, people[3], draw)
            older = facts


def _statements(
    kind: int, facts: dict[str, str], older: dict[str, str], stranger: str, draw: random.Random
) -> Iterator[tuple[str, str]]:
    of_amount, of_day = _SAID[kind]
    for said in (of_amount, of_day, _WROTE):
        yield "right", said.format(**facts)
        yield "other sender", said.format(**facts | {"sender": stranger})
    yield "other amount", of_amount.format(**facts | {"amount": f"{draw.randint(21, 979) * 50 + 10:,}"})
    yield "other date", of_day.format(**facts | {"day": f"{draw.randint(1, 28)} December 2026"})
    yield "other date", _WROTE.format(**facts | {"sent": f"{draw.randint(1, 28)} December 2024"})
    if older:
        yield "older value", of_amount.format(**facts | {"amount": older["amount"]})
        yield "older value", of_day.format(**facts | {"day": older["day"]})
        yield "older sender", of_amount.format(**facts | {"sender": older["sender"]})


def _day(when: datetime) -> str:
    return f"{when.day} {when:%B %Y}"
