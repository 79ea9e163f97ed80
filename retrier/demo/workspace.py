"""The demo's temporary folder, with broker, database, settings and the files of the causes."""

import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from retrier.demo.orders import Defect
from retrier.domain.values import dataclass
from retrier.private_files import make_private_file

_STOP = 10
"""Seconds the service has to end."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workspace:
    """The demo's folder. A cause is broken as long as its file is in `broken/`."""

    folder: Path

    @property
    def broker_url(self) -> str:
        """The URL of the embedded broker; any Kombu program on this machine can use that broker."""
        return f"embedded:///{self.folder}/broker.db"

    @property
    def config(self) -> Path:
        """The settings file with which the service is run."""
        return self.folder / "retrier.yaml"

    @property
    def log(self) -> Path:
        """The file with the log of the service."""
        return self.folder / "service.log"

    @property
    def broken_folder(self) -> Path:
        """One file per cause that is not repaired."""
        return self.folder / "broken"

    @property
    def counts(self) -> Path:
        """The file into which the shop writes its counts, for its page."""
        return self.folder / "shop.json"

    def set_up(self, port: int) -> None:
        """Write the settings, and break everything."""
        self.broken_folder.mkdir(mode=0o700)
        for cause in Defect:
            (self.broken_folder / cause).touch()
        for file in (self.config, self.log):
            make_private_file(file)
        self.config.write_text(
            f"broker: {{url: '{self.broker_url}'}}\n"
            f"database: {{url: 'sqlite:///{self.folder}/retrier.db'}}\n"
            f"api: {{port: {port}}}\n"
        )

    def find_broken(self) -> frozenset[Defect]:
        """Return the causes that are not repaired."""
        return frozenset(cause for cause in Defect if (self.broken_folder / cause).exists())

    def repair(self, cause: Defect) -> None:
        """Remove one cause, as a person would with `rm`."""
        (self.broken_folder / cause).unlink(missing_ok=True)

    @contextmanager
    def running_service(self) -> Iterator[subprocess.Popen[bytes]]:
        """Run the service in a process of its own, as a user would, with the shop's page beside."""
        command = [sys.executable, "-m", "retrier.cli.demo_service", str(self.config)]
        # RETRIER_ variables would override the demo's settings, even its database.
        environ = {name: os.environ[name] for name in os.environ if not name.startswith("RETRIER_")}
        with (
            self.log.open("wb") as log,
            subprocess.Popen(command, stderr=log, env=environ) as process,  # noqa: S603 - ourselves
        ):
            try:
                yield process
            finally:
                _end(process)


@contextmanager
def temporary_workspace() -> Iterator[Workspace]:
    """Yield a new folder, which is removed afterwards."""
    folder = Path(tempfile.mkdtemp(prefix="retrier-demo-"))
    try:
        yield Workspace(folder=folder)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _end(process: subprocess.Popen[bytes]) -> None:
    process.terminate()
    try:
        process.wait(_STOP)
    except subprocess.TimeoutExpired:
        process.kill()
