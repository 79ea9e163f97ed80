"""What reaches a terminal: nothing that a message could use against it, and no more than fits."""

import re
from collections.abc import Callable
from datetime import UTC, datetime
from io import StringIO

import pytest
from rich.console import Console

from retrier.cli.printer import Column, Printer, harmless, minute, moment, one_line
from tests.support.command_line import CommandLine
from tests.support.factories import failure

HOSTILE = "[bold red]:boom:[/] \x1b[31mred\x1b]8;;http://x\x07 \u202egnp\x9b2J\x00\x7f"
ESCAPE = re.compile(r"\x1b\[[0-9;]*m")


def without_colours(text: str) -> str:
    return ESCAPE.sub("", text)


@pytest.mark.parametrize("terminal", [None, 200])
@pytest.mark.parametrize("command", [["errors", "list"], ["errors", "show"], ["groups"]])
def test_message_text_is_neither_markup_nor_control(
    cli: CommandLine, terminal: int | None, command: list[str]
) -> None:
    (unique_id,) = cli.api.receive(
        failure(
            exception_type=HOSTILE,
            exception_message=HOSTILE,
            stack_trace=HOSTILE,
            queue=HOSTILE,
            headers={HOSTILE: HOSTILE},
        )
    )
    cli.terminal = terminal

    result = cli.run(*command, *([unique_id] if "show" in command else []))

    shown = without_colours(result.stdout)
    assert "[bold red]:boom:[/]" in shown
    assert all(each.isprintable() or each == "\n" for each in shown)


def test_a_line_break_in_a_cell_makes_no_new_line(cli: CommandLine) -> None:
    cli.api.receive(failure(exception_message="one\r\ntwo\n\n\tthree"))

    lines = cli.lines("errors", "list")

    assert len(lines) == 2
    assert lines[1].endswith("one two three")


def test_a_table_is_cut_to_the_terminal(cli: CommandLine) -> None:
    (unique_id,) = cli.api.receive(failure(exception_message="long " * 100))
    cli.terminal = 80

    lines = without_colours(cli.run("errors", "list").stdout).splitlines()

    assert max(map(len, lines)) <= 80
    assert unique_id[:8] in lines[-1] or unique_id[:8] in lines[-2]
    assert any("…" in line for line in lines)


@pytest.mark.parametrize(("width", "least"), [(80, 32), (120, 62)])
def test_a_title_gets_the_room_of_a_terminal(cli: CommandLine, width: int, least: int) -> None:
    cli.api.receive(failure(message_type="title " * 80))
    cli.terminal = width

    shown = cli.run("groups", "--classifier", "Message Type").stdout

    line = without_colours(shown).splitlines()[-1]
    assert len(line) <= width
    assert len(line[line.index("title") :].rstrip()) >= least


def test_why_a_group_waits_does_not_take_the_room_of_its_title() -> None:
    out = Console(width=80, force_terminal=True, color_system=None, file=StringIO())
    title, reason = "t" * 60, "r" * 60

    Printer(out).table(
        [
            Column(title="id"),
            Column(title="title", flexible=True),
            Column(title="waits because", flexible=True, below=True),
        ],
        [["1", title, ""], ["2", title, reason], ["3", title, reason]],
    )

    lines = [line.split() for line in out.file.getvalue().splitlines()]
    assert lines == [
        ["id", "title"],
        ["1", title],
        ["2", title],
        ["3", title],
        [],
        ["waits", "because:"],
        [reason],
        ["2,", "3"],
    ]


def test_a_narrow_terminal_is_not_told_the_year_of_today(cli: CommandLine) -> None:
    cli.api.receive(failure(), failure(time_of_failure=datetime(2020, 1, 2, tzinfo=UTC)))
    cli.terminal = 80

    narrow = without_colours(cli.run("errors", "list").stdout)
    cli.terminal = 100
    wide = without_colours(cli.run("errors", "list").stdout)

    assert (" 05-04 12:00 " in narrow, "2020-01-02 00:00" in narrow) == (True, True)
    assert "2026-05-04 12:00" in wide


def test_a_long_title_does_not_fill_up_the_lines_of_others() -> None:
    out = Console(file=StringIO())

    Printer(out).table(
        [Column(title="title", flexible=True), Column(title="why", flexible=True)],
        [["long " * 100, "a"], ["short", "b"]],
    )

    _, long, short = out.file.getvalue().splitlines()
    assert long == "long " * 99 + "long  a"
    assert short == f"{'short':<60}  b"


def test_each_message_has_one_line_on_a_terminal(cli: CommandLine) -> None:
    cli.api.receive(*(failure(exception_message="long " * 100) for _ in range(3)))
    cli.terminal = 80

    shown = cli.run("errors", "list").stdout

    assert shown.count("…") == 3
    assert len([line for line in shown.splitlines() if "unresolved" in line]) == 3


def test_what_is_not_a_terminal_gets_everything(cli: CommandLine) -> None:
    cli.api.receive(failure(exception_message="long " * 100))

    assert "long " * 99 in cli.lines("errors", "list")[1]


def test_statuses_are_coloured_on_a_terminal(cli: CommandLine) -> None:
    cli.api.receive(failure())
    cli.terminal = 120

    assert "\x1b[31munresolved" in cli.run("errors", "list").stdout


def test_no_color_is_respected(cli: CommandLine) -> None:
    cli.api.receive(failure())
    cli.terminal = 120

    assert "\x1b[31m" not in cli.run("errors", "list", NO_COLOR="1").stdout


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("plain", "plain"),
        ("größe 価格 🙂", "größe 価格 🙂"),
        ("a\tb\nc", "a    b\nc"),
        ("\x1b\x9b\x07\x00\x7f", "\\x1b\\x9b\\x07\\x00\\x7f"),
        ("a\r\nb\rc", "a\nb\\rc"),
        ("\u202e\u200b\ufeff", "\\u202e\\u200b\\ufeff"),
        ("\ud800", "\\ud800"),
        ("a\u00a0b\u2028c", "a b c"),
    ],
)
def test_control_characters_are_written_out(text: str, shown: str) -> None:
    assert harmless(text) == shown


@pytest.mark.parametrize(("text", "shown"), [(None, ""), ("a\n\tb ", "a b"), (7, "7")])
def test_a_cell_is_one_line(text: object, shown: str) -> None:
    assert one_line(text) == shown


@pytest.mark.parametrize("width", [40, 60, 99])
def test_a_narrow_terminal_leaves_columns_out(cli: CommandLine, width: int) -> None:
    cli.api.receive(failure())
    cli.terminal = width

    shown = cli.run("errors", "list").stdout

    assert "message type" not in shown
    assert max(map(len, without_colours(shown).splitlines())) <= width


def test_a_wide_terminal_shows_all_columns(cli: CommandLine) -> None:
    cli.api.receive(failure())
    cli.terminal = 100

    assert "message type" in cli.run("errors", "list").stdout


@pytest.mark.parametrize(
    ("show", "shown"), [(moment, "2026-05-04 12:00:07Z"), (minute, "2026-05-04 12:00")]
)
def test_a_time_is_shown_as_short_as_it_may_be(show: Callable[[str], str], shown: str) -> None:
    assert show("2026-05-04T12:00:07.123456Z") == shown


def test_what_is_no_time_is_shown_as_it_is() -> None:
    assert moment("yester\nday") == "yester day"
