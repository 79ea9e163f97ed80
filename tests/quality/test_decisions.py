"""Each decision record says under its title whether it is in force, and what took its place."""

import re

from tests.support.project import ROOT

RECORDS = sorted((ROOT / "docs" / "decisions").glob("0*.md"))
TITLE = re.compile(r"# (\d{4}):? \S")
STATUS = re.compile(
    r"Status: (in force|replaced by \[\d{4}\]|measurement; see \[performance\.md\])"
)
REPLACED = re.compile(r"replaced by \[(\d{4})\]\((\d{4})-[\w-]+\.md\)")
NAMED = re.compile(r"\[(\d{4})\]\(([\w./-]+)\)")

HEADS = {path.name[:4]: path.read_text().split("\n")[:4] for path in RECORDS}
STATUSES = {number: head[2] for number, head in HEADS.items()}


def test_a_record_begins_with_its_number_and_title() -> None:
    titles = {number: TITLE.match(head[0]) for number, head in HEADS.items()}

    assert [number for number, title in titles.items() if not title or title[1] != number] == []


def test_the_status_stands_under_the_title_in_a_paragraph_of_its_own() -> None:
    heads = {number: (head[1], STATUS.match(head[2]), head[3]) for number, head in HEADS.items()}

    assert [
        number for number, (above, found, below) in heads.items() if above or below or not found
    ] == []


def test_a_status_names_a_record_by_its_number_and_its_file() -> None:
    links = [
        (number, link) for number, status in STATUSES.items() for link in NAMED.findall(status)
    ]
    names = {path.name for path in RECORDS}

    assert [
        (number, link)
        for number, link in links
        if link[1] not in names or not link[1].startswith(f"{link[0]}-")
    ] == []


def test_what_replaces_a_record_is_later_and_in_force() -> None:
    replacing = [
        (number, by) for number, status in STATUSES.items() for by, _ in REPLACED.findall(status)
    ]

    assert replacing != []
    assert [
        (number, by)
        for number, by in replacing
        if by <= number or not STATUSES.get(by, "").startswith("Status: in force")
    ] == []


def test_every_replaced_by_names_a_record() -> None:
    wordings = {number: status.count("replaced by") for number, status in STATUSES.items()}

    assert {
        number: status
        for number, status in STATUSES.items()
        if len(REPLACED.findall(status)) != wordings[number]
    } == {}
