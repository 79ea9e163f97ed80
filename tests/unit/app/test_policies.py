"""The policies in force: what a changed file does, and what is told of it."""

import os
from pathlib import Path

import pytest

from retrier.app.policies import GONE, PolicyFile, PolicySource, make_policy_source
from retrier.settings import PoliciesSection, Settings, load_settings
from tests.support.frozen_clock import FrozenClock
from tests.support.told import Told

OUTBOX = "policies: {rules: [{name: one, match: {}, preset: outbox}]}\n"
LONGER = "policies: {rules: [{name: longer, match: {}, preset: outbox}]}\n"
WRONG = "policies: {rules: [{name: one, match: {}, preset: inbox, attempts: -1}]}\n"


class Site:
    """A source whose file is written by the test, and looked at when it says so."""

    def __init__(self, path: Path, text: str = OUTBOX) -> None:
        self.path = path
        self.told = Told()
        self._written = 0
        self.write(text)
        settings = load_settings(path, {})
        self.source = make_policy_source(settings, path, {}, FrozenClock(), self.told.tell)
        self.look(2)

    def write(self, text: str) -> None:
        """Write the file, each time with another time: two writes may fall into one tick."""
        self._written += 1
        self.path.write_text(text)
        os.utime(self.path, ns=(self._written * 10**9, self._written * 10**9))

    def look(self, times: int = 1) -> None:
        for _ in range(times):
            self.source.look()

    @property
    def rules(self) -> list[str]:
        return [rule.name for rule in self.source.current().definition.rules]

    @property
    def problems(self) -> tuple[str, ...]:
        return self.source.in_force.problems


@pytest.fixture
def site(tmp_path: Path) -> Site:
    return Site(tmp_path / "retrier.yaml")


def test_at_first_they_are_those_of_the_settings(site: Site) -> None:
    assert site.rules == ["one"]
    assert site.source.in_force.is_configured
    assert site.told.names == []


def test_a_changed_file_is_in_force_after_two_looks(site: Site) -> None:
    site.write(LONGER)

    site.look(2)

    assert site.rules == ["longer"]
    assert site.told.of("policies.taken") == [
        {"file": str(site.path), "set_hash": site.source.current().hash[:8], "rules": 1}
    ]


def test_a_file_that_is_being_written_is_not_taken(site: Site) -> None:
    for text in (LONGER[:9], LONGER[:9] + "}", LONGER):
        site.write(text)
        site.look()

    assert site.rules == ["one"]
    assert site.problems == ()


def test_a_wrong_file_leaves_the_set_before_it_in_force(site: Site) -> None:
    site.write(WRONG)

    site.look(2)

    assert site.rules == ["one"]
    assert len(site.problems) == 2


def test_a_wrong_file_is_told_once(site: Site) -> None:
    site.write(WRONG)

    site.look(5)

    assert site.told.of("policies.wrong") == [
        {"file": str(site.path), "reason": f"{site.problems[0]} (and 1 more)"}
    ]


def test_another_wrong_file_is_told_again(site: Site) -> None:
    site.write(WRONG)
    site.look(2)
    site.write("policies: {default: retry}")

    site.look(2)

    assert site.told.names == ["policies.wrong"] * 2


def test_a_file_that_is_right_again_is_told_once(site: Site) -> None:
    site.write(WRONG)
    site.look(2)
    site.write(LONGER)

    site.look(3)

    assert (site.rules, site.problems) == (["longer"], ())
    assert site.told.names == ["policies.wrong", "policies.right"]


def test_a_wrong_file_is_read_again_at_each_look(site: Site) -> None:
    site.write(WRONG)
    site.look(2)
    # As if it were mended within the tick of the file system's clock, and as long as before
    stamp = site.path.stat()
    site.path.write_text(OUTBOX.rstrip("\n") + " " * (len(WRONG) - len(OUTBOX)) + "\n")
    os.utime(site.path, ns=(stamp.st_mtime_ns, stamp.st_mtime_ns))

    site.look()

    assert site.problems == ()


def test_a_file_that_is_gone_changes_nothing_else(site: Site) -> None:
    site.path.unlink()

    site.look(2)

    assert site.rules == ["one"]
    assert site.problems == (f"{site.path}: cannot be read: No such file or directory",)


def test_a_file_that_is_gone_at_once_is_noticed_too(tmp_path: Path) -> None:
    path = tmp_path / "retrier.yaml"
    source = PolicySource(file=PolicyFile(path=path))

    source.look()
    source.look()

    assert source.in_force.problems != ()


@pytest.mark.parametrize("text", ["instance: retrier\n", "policies:\n", "", "# nothing\n"])
def test_a_section_that_is_gone_is_told_and_changes_nothing(site: Site, text: str) -> None:
    site.write(text)

    site.look(5)

    assert (site.rules, site.problems) == (["one"], (GONE,))
    assert site.told.of("policies.wrong") == [{"file": str(site.path), "reason": GONE}]


@pytest.mark.parametrize("text", ["policies: {}\n", "policies: {rules: []}\n"])
def test_a_section_that_says_that_there_is_none_leaves_all_to_people(site: Site, text: str) -> None:
    site.write(text)

    site.look(2)

    assert (site.rules, site.problems) == ([], ())
    assert site.told.names == ["policies.taken"]


def test_a_section_that_said_nothing_may_be_gone(tmp_path: Path) -> None:
    site = Site(tmp_path / "retrier.yaml", "policies: {}\n")
    site.write("instance: retrier\n")

    site.look(2)

    assert site.problems == ()
    assert not site.source.in_force.is_configured


def test_what_else_is_wrong_in_the_file_does_not_matter(site: Site) -> None:
    site.write("api: {port: many}\n" + LONGER)

    site.look(2)

    assert site.rules == ["longer"]


def test_the_same_policies_in_other_words_are_not_told(site: Site) -> None:
    site.write("# the same\n" + OUTBOX)

    site.look(2)

    assert site.told.names == []


def test_a_queue_that_retrier_empties_is_refused_as_at_the_start(site: Site) -> None:
    site.write("policies: {notices: retrier.staging}\n")

    site.look(2)

    assert site.problems == (
        "policies.notices: retrier.staging is a queue that Retrier itself empties",
    )


def test_without_a_file_nothing_is_looked_at() -> None:
    source = make_policy_source(Settings(), None, {}, FrozenClock(), Told().tell)

    source.look()

    assert not source.in_force.is_configured
    assert source.in_force.file_time is None


def test_a_file_that_is_replaced_while_it_is_read_is_read_again(tmp_path: Path) -> None:
    # Given a file that changes each time it is read
    path = tmp_path / "retrier.yaml"
    path.write_text(LONGER)

    class Restless(PolicyFile):
        def read(self) -> PoliciesSection | None:
            found = PolicyFile.read(self)
            self.path.write_text(self.path.read_text() + "\n")
            return found

    source = PolicySource(file=Restless(path=path))

    source.look()
    source.look()

    assert source.current().definition.rules == ()


class TestTheTextOfTheSection:
    def test_is_as_it_stands_in_the_file_and_nothing_else_of_it(self, site: Site) -> None:
        section = "policies: # ours\n  rules:\n    - {name: one, match: {}, preset: outbox}\n"
        site.write(
            f"database: {{url: 'postgresql://u:secret@db/x'}}\n{section}log: {{level: info}}\n"
        )

        assert site.source.text() == section

    def test_is_empty_without_a_section_or_a_file(self, site: Site) -> None:
        site.write("log: {level: info}\n")
        without = site.source.text()
        site.path.unlink()

        assert (without, site.source.text(), PolicySource().text()) == ("", "", "")

    def test_is_empty_while_the_file_is_no_yaml(self, site: Site) -> None:
        site.write("policies: [")

        assert site.source.text() == ""
