"""retrier errors revive, retrier errors dead, and what other commands say of dead messages."""

import json
import re
from typing import Any

import pytest

from tests.contract.store_rows import again
from tests.support.command_line import CommandLine
from tests.support.disposing import make_dead, schedule
from tests.support.factories import failure


def fail_dead(cli: CommandLine, dead: int, manual: int = 0) -> tuple[list[str], list[str]]:
    ids = cli.api.receive(*(failure(queue="orders") for _ in range(dead + manual)))
    make_dead(cli.api.db, *ids[:dead])
    return ids[:dead], ids[dead:]


class TestRevive:
    def test_prints_the_operation(self, cli: CommandLine) -> None:
        ((key,), _) = fail_dead(cli, 1)

        (line,) = cli.lines("errors", "revive", key[:8])

        (operation,) = cli.api.get("operations")
        assert line == f"{key[:8]} is retried: operation {operation['id'][:8]}"

    def test_of_several_asks_for_each(self, cli: CommandLine) -> None:
        (dead, _) = fail_dead(cli, 2)

        cli.lines("errors", "revive", *dead)

        assert len(cli.api.get("operations")) == 2

    def test_reads_ids_from_standard_input(self, cli: CommandLine) -> None:
        (dead, _) = fail_dead(cli, 2)

        result = cli.run("errors", "revive", "-", stdin="\n".join(dead))

        assert (result.exit_code, len(cli.api.get("operations"))) == (0, 2)

    def test_of_what_is_not_dead_ends_with_1_and_says_why(self, cli: CommandLine) -> None:
        ((dead,), (manual,)) = fail_dead(cli, 1, 1)

        result = cli.run("errors", "revive", manual, dead)

        assert result.exit_code == 1
        assert f"{manual}: The message cannot be revived: it is not dead" in result.stderr
        assert len(cli.api.get("operations")) == 1

    def test_twice_under_one_key_asks_once(self, cli: CommandLine) -> None:
        (dead, _) = fail_dead(cli, 2)

        for _ in range(2):
            cli.lines("errors", "revive", *dead, "--idempotency-key", "monday")

        assert len(cli.api.get("operations")) == 2

    def test_prints_json(self, cli: CommandLine) -> None:
        ((dead,), (manual,)) = fail_dead(cli, 1, 1)

        printed = json.loads(cli.run("errors", "revive", dead, manual, "--json").stdout)

        first, second = printed["items"]
        assert (first["id"], first["total"]) == (dead, 1)
        assert (second["id"], "it is not dead" in second["refused"]) == (manual, True)


class TestDead:
    def test_says_what_it_is_now(self, cli: CommandLine) -> None:
        (_, (key,)) = fail_dead(cli, 0, 1)

        lines = cli.lines("errors", "dead", key[:8], "--why", "closed", "--user", "ada")

        assert lines == [f"{key[:8]} is dead: closed"]
        shown = cli.api.get(f"errors/{key}")
        assert shown["disposition_reason"].startswith("declared dead by ada (")

    def test_of_what_is_dead_ends_with_1(self, cli: CommandLine) -> None:
        ((key,), _) = fail_dead(cli, 1)

        result = cli.run("errors", "dead", key, "--why", "closed")

        assert result.exit_code == 1
        assert "it is dead already" in result.stderr

    def test_may_give_it_a_reason(self, cli: CommandLine) -> None:
        (_, (key,)) = fail_dead(cli, 0, 1)

        cli.lines("errors", "dead", key, "--why", "closed", "--reason", "PoisonMessage")

        assert cli.api.get(f"errors/{key}")["reason"] == "poison_message"

    def test_with_a_reason_that_there_is_not_ends_with_2_and_names_the_nearest(
        self, cli: CommandLine
    ) -> None:
        (_, (key,)) = fail_dead(cli, 0, 1)

        result = cli.run("errors", "dead", key, "--why", "closed", "--reason", "posion")

        assert result.exit_code == 2
        assert "perhaps poison_message is meant" in " ".join(result.stderr.replace("│", "").split())

    def test_needs_a_reason(self, cli: CommandLine) -> None:
        (_, (key,)) = fail_dead(cli, 0, 1)

        assert cli.run("errors", "dead", key).exit_code == 2


class TestARetry:
    def retry(self, cli: CommandLine, *options: str) -> Any:
        return cli.run("retry", *options)

    def test_says_how_many_dead_messages_it_leaves_out_and_how_to_take_them(
        self, cli: CommandLine
    ) -> None:
        fail_dead(cli, 10, 90)

        result = self.retry(cli, "--queue", "orders")

        assert "asked for a retry of 90 messages" in result.stdout
        assert (
            "10 messages are dead and left out; all of them: "
            "`retrier retry --queue orders --disposition any`" in result.stderr
        )

    def test_of_all_says_so_too(self, cli: CommandLine) -> None:
        fail_dead(cli, 1)

        result = self.retry(cli, "--all")

        assert "There is nothing to retry" in result.stdout
        assert "1 message is dead and left out" in result.stderr
        assert "`retrier retry --disposition any`" in result.stderr

    def test_with_any_takes_all_and_says_nothing(self, cli: CommandLine) -> None:
        fail_dead(cli, 10, 90)

        result = self.retry(cli, "--queue", "orders", "--disposition", "any")

        assert "asked for a retry of 100 messages" in result.stdout
        assert "dead" not in result.stderr

    def test_previews_what_it_leaves_out(self, cli: CommandLine) -> None:
        fail_dead(cli, 2, 1)

        result = self.retry(cli, "--all", "--dry-run")

        assert "2 messages are dead and left out" in result.stderr

    def test_says_so_later_where_the_operation_is_shown(self, cli: CommandLine) -> None:
        fail_dead(cli, 2, 1)
        self.retry(cli, "--all")
        (operation,) = cli.api.get("operations")

        lines = cli.lines("operations", "show", operation["id"])

        (line,) = (line for line in lines if line.startswith("dead, left out"))
        assert line.split()[-1] == "2"


class TestShown:
    def test_is_when_it_is_tried_again_and_by_which_rule(self, cli: CommandLine) -> None:
        (_, (key,)) = fail_dead(cli, 0, 1)
        schedule(cli.api.db, key, reason="timeout_exceeded")

        lines = cli.lines("errors", "show", key)

        told = {
            line.split("  ")[0]: line.split("  ", 1)[1].strip() for line in lines if "  " in line
        }
        assert told["decision"] == (
            "will be tried again at 2030-01-02 03:04:05Z: failed 1 of 3 times, by rule payments"
        )
        assert (told["reason"], told["policy"]) == ("timeout_exceeded", "payments@5a1d")

    def test_is_since_when_it_is_dead_and_why(self, cli: CommandLine) -> None:
        (_, (key,)) = fail_dead(cli, 0, 1)
        cli.lines("errors", "dead", key, "--why", "closed", "--user", "ada")

        lines = cli.lines("errors", "show", key)

        (line,) = (line for line in lines if line.startswith("decision"))
        assert "dead since 20" in line
        assert line.endswith("): closed")

    def test_is_that_it_has_failed_again_since(self, cli: CommandLine) -> None:
        first = failure(queue="orders")
        (key,) = cli.api.receive(first)
        cli.lines("errors", "dead", key, "--why", "closed", "--user", "ada")

        cli.api.receive(again(first, queue="orders"))

        lines = cli.lines("errors", "show", key)
        (line,) = (line for line in lines if line.startswith("decision"))
        assert re.search(r"  dead: declared dead by .*ada.*: closed; it has failed again", line)

    def test_is_its_disposition_in_lists(self, cli: CommandLine) -> None:
        ((key,), _) = fail_dead(cli, 1, 1)

        _, line = cli.lines("errors", "list", "--disposition", "dead")

        assert line.startswith(f"{key[:8]}  unresolved (dead)  ")

    def test_is_found_by_the_word_as_a_status(self, cli: CommandLine) -> None:
        ((key,), _) = fail_dead(cli, 1, 1)

        assert cli.lines("errors", "list", "--status", "dead", "--ids") == [key]

    def test_is_no_status_beside_another(self, cli: CommandLine) -> None:
        result = cli.run("errors", "list", "--status", "dead", "--status", "archived")

        assert result.exit_code != 0
        assert "dead is no status" in result.stderr

    def test_are_columns_in_groups_that_have_such(self, cli: CommandLine) -> None:
        fail_dead(cli, 0, 1)
        before = cli.lines("groups")
        fail_dead(cli, 2)

        header, line = cli.lines("groups")

        assert "dead" not in before[0]
        assert header.split()[:3] == ["id", "unresolved", "dead"]
        assert line.split()[1:3] == ["3", "2"]


@pytest.mark.parametrize("word", ["dead", "scheduled", "manual", "any"])
def test_every_disposition_can_be_asked_for(cli: CommandLine, word: str) -> None:
    assert cli.run("errors", "list", "--disposition", word).exit_code == 0
