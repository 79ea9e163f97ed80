"""Folders of migrations that end before the newest one, to make databases of older versions."""

from pathlib import Path
from shutil import copy

from alembic import command
from alembic.config import Config
from alembic.script import ScriptDirectory

from retrier.store.engine.database import Database
from retrier.store.engine.transaction import Transaction
from retrier.store.upgrade import MIGRATIONS, take_views_away


def newest_revision() -> str:
    """Return the revision that this version wants."""
    return _scripts().get_current_head() or ""


def migrations_up_to(folder: Path, revision: str) -> Path:
    """Make a folder of migrations that ends with a revision; return where it is."""
    made = folder / f"up_to_{revision}"
    (made / "versions").mkdir(parents=True)
    copy(MIGRATIONS / "env.py", made)
    for each in _scripts().iterate_revisions(revision, "base"):
        copy(each.path, made / "versions")
    return made


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return ScriptDirectory.from_config(config)


def widened(rows: list[str], *, by: list[object]) -> list[str]:
    """Return rows, as texts, with the values of the columns that a revision adds at the end."""
    added = ", ".join(repr(value) for value in by)
    return [f"{row.removesuffix(')')}, {added})" for row in rows]


def downgrade(db: Database, revision: str = "base") -> None:
    """Go back to a revision, or to before the first one, in one transaction."""
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    with db.engine.begin() as conn:
        take_views_away(Transaction(conn, db.sql))
        config.attributes["connection"] = conn
        command.downgrade(config, revision)
