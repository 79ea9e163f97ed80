"""Failures at random: few names, so that many share them, and names that are easily mixed up."""

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta, timezone
from uuid import UUID

from tests.properties.selections.meaning import Sent

EPOCH = datetime(2026, 5, 4, 12, 0, tzinfo=UTC)
"""Around this time messages failed."""

QUEUES = ("orders", "Orders", "orders ", " ", "a/b", "mail%", "mail_", "mailx", "späti", "käse\\")
ENDPOINTS = (None, "Sales", "sales", "orders", "Sales.", "a/b", "..", "Цех", "İzmir", "'; --")
TYPES = (None, "Shop.Place", "shop.place", "Shop.Place ", "Äpfel", "apple", "_under", "Zebra", "10")
EXCEPTIONS = (
    None,
    "Shop.Timeout",
    "Shop.Invalid",
    "Shop.Gone",
    "shop.gone",
    "Shop.Gone%",
    "Ошибка",
)
FRAMES = (None, "Shop.Stock.Take(String item)", "Shop.Till.Pay()")
WORDS = (None, None, None, "rejected", "expired", "Rejected", "rejected ", "maxlen_")
STREAMS = (None, None, "order 42", "order 4", "Order 42", "a/b", "ß")
HOSTS = (None, "box-7", "box-70", "BOX-7", "köln")
PROCESSES = (None, "7", "70", "07")
NODES = (None, "packers@box-7", "packers@box", "Packers@box")
TEXTS = (
    *(None, "card refused", "CARD refused", "timeout of node 2", "timeout of node 20", "100 %"),
    *("100 %%", "a_b", "axb", "C:\\temp", "CAFÉ geschlossen", "café geschlossen", "cafe\u0301 zu"),
    *("Straße", "STRASSE", "İstanbul", "istanbul", "ΣΊΣΥΦΟΣ", "σίσυφος", "ДЫМ", "дым"),
    "x" * 1100 + " card declined",
)
ZONES = (0, 120, -330)
"""Minutes that clocks of senders are off from UTC."""
CLASSIFIED = {"Shop.Timeout": "timeout_exceeded", "Shop.Invalid": "validation_failure"}
"""Reasons by exception, as the policies of these messages give them; else `handler_exception`."""


def draw_failures(dice: random.Random, count: int) -> Sequence[Sent]:
    """Draw the first failures of so many messages."""
    return [_draw(dice, number) for number in range(count)]


def draw_namesakes(dice: random.Random, known: Sequence[str], ids: Sequence[str]) -> Sequence[Sent]:
    """Draw failures whose message id is that of another message, its unique id, or its beginning."""
    taken = [
        *dice.sample(ids, 3),
        *(each[:8] for each in dice.sample(known, 3)),
        *dice.sample(known, 3),
    ]
    return [
        replace(_draw(dice, number), body=b"namesake %d" % number, message_id=name)
        for number, name in enumerate(taken)
    ]


def fail_again(dice: random.Random, sent: Sent) -> Sent:
    """Draw another failure of the same message, a while later, perhaps elsewhere.

    The exception has the same type: what is decided of a second failure is not what is tested here.
    """
    return replace(
        sent,
        failed_at=sent.failed_at + timedelta(minutes=dice.randint(1, 90)),
        host=dice.choice(HOSTS),
        process=dice.choice(PROCESSES),
        node=dice.choice(NODES),
        exception_message=dice.choice(TEXTS),
    )


def _draw(dice: random.Random, number: int) -> Sent:
    return Sent(
        body=b"message %d" % number,
        queue=dice.choice(QUEUES),
        failed_at=_draw_time(dice),
        time_sent=EPOCH - timedelta(seconds=dice.randint(0, 5)) if dice.random() < 0.9 else None,
        endpoint=dice.choice(ENDPOINTS),
        message_type=dice.choice(TYPES),
        exception_type=dice.choice(EXCEPTIONS),
        exception_message=dice.choice(TEXTS),
        frame=dice.choice(FRAMES),
        word=dice.choice(WORDS),
        stream=dice.choice(STREAMS),
        host=dice.choice(HOSTS),
        process=dice.choice(PROCESSES),
        node=dice.choice(NODES),
        message_id=_draw_message_id(dice, number),
    )


def _draw_time(dice: random.Random) -> datetime:
    """Draw one of few seconds, at its borders: many fail at the same microsecond, or one beside."""
    second = EPOCH + timedelta(seconds=dice.randint(0, 3), days=dice.randint(0, 2))
    zone = timezone(timedelta(minutes=dice.choice(ZONES)))
    parts = dice.choice((-1, 0, 0, 1, 500_000, 999_999))
    return (second + timedelta(microseconds=parts)).astimezone(zone)


def _draw_message_id(dice: random.Random, number: int) -> str | None:
    """Draw an id of its own, as libraries and people write them: GUIDs, numbers, with blanks."""
    guid = str(UUID(int=dice.getrandbits(128)))
    forms = (
        guid,
        guid.upper(),
        f"order {number}",
        f"{number:08d}",
        f"m/{number}%",
        f"Süd-{number}",
    )
    return None if dice.random() < 0.1 else dice.choice(forms)
