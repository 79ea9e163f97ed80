"""What every change of the tables needs on both databases, whatever the revision does.

SQLite changes a table by making it anew: the rows are copied, the former one is dropped, and the
new one takes its name. With foreign keys looked at, dropping it would delete all rows along that
refer to it, without an error; so they are not looked at meanwhile (`Database.restructure`), and
afterwards all of them are. And a view would make the same change fail.
"""

from sqlalchemy import text

from retrier.errors import RetrierError
from retrier.store.engine.transaction import Transaction
from retrier.store.schema import VIEWS


class StrayRows(RetrierError):
    """A revision has left rows that refer to what is not there: nothing of it is kept."""


def take_views_away(tx: Transaction) -> None:
    """Drop our views, which are made anew afterwards."""
    for name in reversed(list(VIEWS)):
        tx.execute(text(f"DROP VIEW IF EXISTS {name}"))


def put_views_back(tx: Transaction) -> None:
    """Make our views as this version has them."""
    for name, query in VIEWS.items():
        tx.execute(text(f"CREATE VIEW {name} AS {query}"))


def refuse_strays(tx: Transaction) -> None:
    """Look at every foreign key of SQLite, where none was looked at. Raises StrayRows.

    PostgreSQL has looked at them all the time.
    """
    if strays := tx.sql.find_strays(tx.conn):
        raise StrayRows(
            "the upgrade was undone: it would have left rows that refer to nothing in "
            f"{', '.join(sorted(strays))}"
        )
