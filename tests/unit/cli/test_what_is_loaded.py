"""A command starts at once: it loads neither a service nor a database, and help no command."""

import subprocess
import sys

SLOW = (
    "alembic",
    "httpx",
    "apscheduler",
    "fastapi",
    "jinja2",
    "kombu",
    "psycopg",
    "sqlalchemy",
    "uvicorn",
)


def test_the_command_line_loads_nothing_that_only_a_service_needs() -> None:
    every = "from retrier.cli.application import LISTED, load; [load(each) for each in LISTED]"
    code = f"import sys; {every}; print(sorted({{*sys.modules}} & {{*{SLOW}}}))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert loaded.stdout == b"[]\n"


def test_help_and_completion_load_no_command() -> None:
    shown = "app(['--help'], standalone_mode=False)"
    offered = "get_command(app).shell_complete(None, 're')"
    code = (
        "import sys; from typer.main import get_command; from retrier.cli import app; "
        f"{shown}; {offered}; print({{'httpx', 'pydantic', 'retrier.cli.command'}} & {{*sys.modules}})"
    )

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert loaded.stdout.endswith(b"\nset()\n")


def test_a_service_loads_neither_what_reads_tokens_nor_what_upgrades_databases() -> None:
    spared = "'joserfc', 'cryptography', 'alembic', 'retrier.store.copying'"
    code = f"import sys, retrier.app.service; print({{{spared}}} & {{*sys.modules}})"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert loaded.stdout == b"set()\n"
