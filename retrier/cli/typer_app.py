"""How every part of the command line is made."""

import typer


def make_app(help_text: str) -> typer.Typer:
    """Return a part of the command line.

    No markup and no rich tracebacks: what users wrote is shown as they wrote it.
    """
    return typer.Typer(
        help=help_text,
        no_args_is_help=True,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
    )
