"""Makes the disk full for the SQLite databases of a process that a test starts.

Python imports `sitecustomize` from the first folder of PYTHONPATH that has one; this one limits
the pages of each database (PRAGMA max_page_count, which holds for one connection only) at the
beginning of each transaction, while a certain file exists.
"""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

PROGRAM = """
from pathlib import Path
from sqlalchemy import Engine, event

FULL, LARGEST = Path({flag!r}), 1073741823

@event.listens_for(Engine, "begin")
def limit(conn):
    conn.exec_driver_sql(f"PRAGMA max_page_count = {{1 if FULL.exists() else LARGEST}}")
"""


@dataclass(frozen=True, slots=True)
class Disk:
    """A disk that a test can fill: no database grows by a page any more."""

    folder: Path

    def prepare(self) -> Mapping[str, str]:
        """Return the environment in which a process has this disk."""
        self.folder.mkdir()
        program = PROGRAM.format(flag=str(self._flag))
        (self.folder / "sitecustomize.py").write_text(program)
        path = [str(self.folder), *filter(None, [os.environ.get("PYTHONPATH")])]
        return {"PYTHONPATH": os.pathsep.join(path)}

    @contextmanager
    def full(self) -> Iterator[None]:
        """Let it be full for a while."""
        self._flag.touch()
        yield
        self._flag.unlink()

    @property
    def _flag(self) -> Path:
        return self.folder / "full"
