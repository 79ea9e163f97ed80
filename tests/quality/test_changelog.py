"""The changelog tells each public name that changed since the last release."""

import json
import re

import pytest

from retrier import __version__
from tests.support.project import ROOT
from tests.support.public_names import RECORD, collect, find_untold

CHANGELOG = (ROOT / "CHANGELOG.md").read_text()
HEADING = re.compile(r"^## \[(.+)\]", re.MULTILINE)


def test_the_first_version_of_the_changelog_is_this_one() -> None:
    assert HEADING.findall(CHANGELOG)[:2] == ["Unreleased", __version__]


def test_each_name_that_changed_since_the_release_is_in_the_changelog() -> None:
    record = json.loads(RECORD.read_text())
    later, heading, _ = CHANGELOG.partition(f"## [{record['version']}]")

    assert heading
    # Renew the record only in the commit that gives a version its number.
    assert find_untold(record["names"], collect(), later) == []


def test_no_kind_of_names_is_empty() -> None:
    assert [kind for kind, names in collect().items() if not names] == []


@pytest.mark.parametrize(
    ("before", "now", "untold"),
    [
        ([], ["GET /new"], ["routes: GET /new"]),
        (["GET /old"], [], ["routes: GET /old"]),
        (["GET /old"], ["GET /new"], ["routes: GET /new", "routes: GET /old"]),
        (["GET /old"], ["GET /old"], []),
        ([], ["GET /told"], []),
    ],
    ids=["new", "gone", "renamed", "the same", "told"],
)
def test_a_name_that_changed_and_is_not_told_is_found(
    before: list[str], now: list[str], untold: list[str]
) -> None:
    assert find_untold({"routes": before}, {"routes": now}, "- `GET /told`") == untold
