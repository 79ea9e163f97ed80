"""The service of `retrier demo`: as `retrier run`, with the page of the shop at `/demo` beside it.

No command of its own: `retrier demo` starts it as `python -m retrier.cli.demo_service`.
"""

from pathlib import Path

import typer

from retrier.app.service import serve
from retrier.cli.command import with_exit_code
from retrier.cli.settings import load_config
from retrier.demo.shop_page import shop_page
from retrier.settings import Role


@with_exit_code
def run_service(config: Path) -> None:
    """Run the service with these settings; the shop is in the same folder."""
    pages = [shop_page(config.parent)]
    raise typer.Exit(serve(load_config(config), frozenset(Role), config, pages))


if __name__ == "__main__":
    typer.run(run_service)
