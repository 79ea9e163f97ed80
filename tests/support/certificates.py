"""Certificates of a test run, made with the openssl program: an authority, a server, a client."""

import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.support.servers import give_up


@dataclass(frozen=True, slots=True)
class Certificates:
    """Files in one folder. The server is called `localhost`, and has no address in its name."""

    folder: Path

    @property
    def ca(self) -> str:
        return str(self.folder / "ca.pem")

    @property
    def other_ca(self) -> str:
        return str(self.folder / "other.pem")

    @property
    def client(self) -> str:
        return str(self.folder / "client.pem")

    @property
    def expired(self) -> str:
        """Return the client's certificate whose time is over, with the same key."""
        return str(self.folder / "client.expired.pem")

    @property
    def encrypted_key(self) -> str:
        """Return the client's key, which only its password opens."""
        return str(self.folder / "encrypted.key")

    @property
    def client_key(self) -> str:
        return str(self.folder / "client.key")


def make_certificates(folder: Path) -> Certificates:
    """Make all of them. Skips aloud without openssl."""
    if shutil.which("openssl") is None:
        give_up("openssl is not installed: no certificate can be made")
    for authority in ("ca", "other"):
        _run(
            folder, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2",
            "-subj", f"/CN=test {authority}", "-keyout", f"{authority}.key",
            "-out", f"{authority}.pem",
        )  # fmt: skip
    for name, subject in {"server": "localhost", "client": "certified"}.items():
        _run(
            folder, "req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={subject}",
            "-keyout", f"{name}.key", "-out", f"{name}.csr",
        )  # fmt: skip
        (folder / f"{name}.ext").write_text(f"subjectAltName=DNS:{subject}\n")
        for days, file in {"2": f"{name}.pem", "-1": f"{name}.expired.pem"}.items():
            _run(
                folder, "x509", "-req", "-in", f"{name}.csr", "-CA", "ca.pem", "-CAkey", "ca.key",
                "-CAcreateserial", "-days", days, "-extfile", f"{name}.ext", "-out", file,
            )  # fmt: skip
    _run(
        folder, "pkey", "-in", "client.key", "-aes256", "-passout", "pass:secret",
        "-out", "encrypted.key",
    )  # fmt: skip
    for key in folder.glob("*.key"):
        key.chmod(0o600)
    return Certificates(folder)


def _run(folder: Path, *words: str) -> None:
    subprocess.run(["openssl", *words], cwd=folder, check=True, capture_output=True, timeout=60)
