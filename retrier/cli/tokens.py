"""`retrier token`: tokens for programs, kept in the database of the settings; no service is needed."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Annotated, Any

import typer

from retrier.cli.command import AsJson, ExitCode, User, command, make_app, offer_words, printer_of
from retrier.cli.printer import Column, Printer, minute
from retrier.cli.settings import Config, EnvFile, load_remarking
from retrier.domain.access import AccessRole
from retrier.domain.times import NoTime, as_sentence, read_duration
from retrier.domain.values import dataclass

app = make_app(
    "Tokens for programs: made, listed, revoked. They use the settings, not the service."
)

Name = Annotated[
    str, typer.Option("--name", metavar="NAME", help="What it is called, in every log.")
]
RoleOption = Annotated[
    AccessRole,
    typer.Option("--role", help="What it may do.", autocompletion=offer_words(AccessRole)),
]
Queues = Annotated[
    list[str] | None,
    typer.Option(
        "--queues", metavar="PATTERN", help="A queue it may act on, with *; several times for more."
    ),
]
Expires = Annotated[
    str, typer.Option("--expires", metavar="TIME", help="When it runs out: 90d. Never without.")
]


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedToken:
    """What a new token is to be."""

    name: Name
    role: RoleOption
    queues: Queues = None
    expires: Expires = ""

    @property
    def patterns(self) -> tuple[str, ...] | None:
        """The queues; None for all."""
        return tuple(self.queues) if self.queues else None

    @property
    def lasts(self) -> timedelta | None:
        """How long it is good; None for ever. Raises typer.BadParameter."""
        try:
            return read_duration(self.expires) if self.expires else None
        except NoTime as error:
            raise typer.BadParameter(as_sentence(error), param_hint="--expires") from None


ForFile = Annotated[
    bool,
    typer.Option(
        "--for-file", help="Write nothing to the database: print what goes into access.tokens."
    ),
]


@app.command(
    epilog="""
    \b
    Examples:
      retrier token create --name deploy --role operator --queues 'orders*' --expires 90d
      retrier token create --name grafana --role reader --for-file
    """
)
@command
def create(
    ctx: typer.Context,
    wanted: WantedToken,
    config: Config = None,
    _env_file: EnvFile = None,
    user: User = "",
    *,
    for_file: ForFile = False,
    as_json: AsJson = False,
) -> None:
    """Make a token and print it, this once.

    Only its hash is kept.
    """
    printer = printer_of(ctx, as_json=as_json)
    asked = (wanted.name, wanted.role, wanted.patterns, wanted.lasts)
    from retrier.app.tokens import create_token, write_token  # noqa: PLC0415 - slow to load

    if for_file:
        made = write_token(*asked)
        printer.show(made, _show_for_file)
        return
    settings = load_remarking(ctx, config)
    made = create_token(settings, *asked, _who(user))
    printer.show(made, _show_made)
    if settings.access is None:
        printer.note("Nobody is asked for a token as long as the settings have no section access.")


@app.command("list", epilog="Example: retrier token list")
@command
def list_all(
    ctx: typer.Context, config: Config = None, _env_file: EnvFile = None, *, as_json: AsJson = False
) -> None:
    """List the tokens of the database and of the settings."""
    settings = load_remarking(ctx, config)
    from retrier.app.tokens import find_tokens  # noqa: PLC0415 - as above

    found = find_tokens(settings)
    printer_of(ctx, as_json=as_json).show(
        {"tokens": found}, lambda printer, _: _table(printer, found)
    )


@app.command(epilog="Example: retrier token revoke --name deploy")
@command
def revoke(
    ctx: typer.Context,
    name: Name,
    config: Config = None,
    _env_file: EnvFile = None,
    user: User = "",
    *,
    as_json: AsJson = False,
) -> None:
    """Revoke a token.

    Within a second nobody is let in with it, on every instance.
    """
    settings = load_remarking(ctx, config)
    from retrier.app.tokens import revoke_token  # noqa: PLC0415 - as above

    why_not = revoke_token(settings, name, _who(user))
    printer = printer_of(ctx, as_json=as_json)
    if why_not is not None:
        printer.show({"revoked": False, "reason": why_not}, f"{name} is not revoked: {why_not}")
        raise typer.Exit(ExitCode.REFUSED)
    printer.show({"revoked": name}, f"the token {name} is revoked")


def _who(user: str) -> str:
    return f"{user or 'somebody'} (retrier token)"


def _show_made(printer: Printer, made: dict[str, Any]) -> None:
    printer.line(made["token"])
    printer.note("It is shown this once. Keep it as RETRIER_TOKEN, or in a file for --token-file.")


def _show_for_file(printer: Printer, made: dict[str, Any]) -> None:
    printer.line(made["token"])
    printer.note("It is shown this once. For the settings, under access.tokens:")
    printer.line(made["entry"])


_COLUMNS = (
    Column(title="name", flexible=True),
    Column(title="role"),
    Column(title="queues", flexible=True),
    Column(title="runs out (UTC)", time=True),
    Column(title="made by", flexible=True),
    Column(title="state"),
)


def _table(printer: Printer, found: Sequence[dict[str, Any]]) -> None:
    printer.table(
        _COLUMNS,
        [
            (
                each["name"],
                each["role"],
                ", ".join(each["queues"]) if each["queues"] is not None else "all",
                minute(each["expires_at"]) if each["expires_at"] else "never",
                each["created_by"],
                each["state"],
            )
            for each in found
        ],
    )
    if not found:
        printer.line("there is no token")
