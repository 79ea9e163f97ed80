"""A command that asks a service starts at once: it loads neither a service nor a database."""

import subprocess
import sys

SLOW = ("alembic", "apscheduler", "fastapi", "jinja2", "kombu", "psycopg", "sqlalchemy", "uvicorn")


def test_the_command_line_loads_nothing_that_only_a_service_needs() -> None:
    code = f"import sys, retrier.cli.application; print(sorted({{*sys.modules}} & {{*{SLOW}}}))"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert loaded.stdout == b"[]\n"


def test_a_service_that_asks_nobody_who_they_are_loads_nothing_that_reads_tokens() -> None:
    code = "import sys, retrier.app.service; print({'joserfc', 'cryptography'} & {*sys.modules})"

    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True)

    assert loaded.stdout == b"set()\n"
