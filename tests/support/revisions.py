"""Folders of migrations: those that there are, to be followed by one more."""

from pathlib import Path
from shutil import copy

from alembic.config import Config
from alembic.script import ScriptDirectory

from retrier.store.revisions import MIGRATIONS


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
