"""Builds the packages into `dist/`, and checks them: `python -m tests.packaging [--install [PYTHON ...]]`.

What it needs is the extra `packaging`. The Kubernetes files of `docs/deploy` are held against the
schemas of Kubernetes, where an unknown field is a mistake. With `--install` the wheel is put into a new environment in
an empty folder and used there: the demo, the service with its page, a worker, the part for Celery;
and `dist/retrier.cdx.json` says, as CycloneDX, what was installed with it. That asks the package
index for the dependencies. Other interpreters may be named: then it is done once with each.
"""

import argparse
import hashlib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterable, Mapping
from itertools import takewhile
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.request import urlopen

import kubernetes_validate
import yaml
from cyclonedx.schema import SchemaVersion
from cyclonedx.validation.json import JsonStrictValidator

from tests.packaging.sbom import SBOM
from tests.support.project import ROOT

DIST = ROOT / "dist"
SCRIPTS = Path(sys.executable).parent
ADDRESSES = "AuthorEmail,Url"
"""What pyroma is not asked about: no address of the project is known yet."""

IMPORTED = ("retrier.worker", "retrier.integrations.celery", "retrier.integrations.dramatiq")
STARTED = "service.started"
ADDRESS = re.compile(r'"page": "([^"]+)"')


def main() -> int:
    """Build, check and, if asked to, install. A tool that finds something ends it: exit code 1."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--install", nargs="*", metavar="PYTHON", help="try the wheel in a new environment of each"
    )
    options = parser.parse_args()
    with TemporaryDirectory(prefix="retrier-packaging-") as folder:
        try:
            wheel, sdist = build_twice(Path(folder))
            check(wheel, sdist)
            check_manifests()
            if options.install is not None:
                for number, python in enumerate(options.install or [sys.executable]):
                    use(wheel, Path(folder) / f"empty{number}", python)
        except subprocess.CalledProcessError as error:
            sys.stderr.write(f"failed: {' '.join(map(str, error.cmd))}\n")
            return 1
        except ValueError as error:
            sys.stderr.write(f"{error}\n")
            return 1
    return 0


def build_twice(folder: Path) -> tuple[Path, Path]:
    """Build both packages twice, and a wheel of the checkout; return wheel and sdist in `dist/`.

    Raises ValueError if two that should be the same are not.
    """
    environ = {**os.environ, "SOURCE_DATE_EPOCH": time_of_commit()}
    first, second, direct = (folder / name for name in ("first", "second", "direct"))
    for target in (first, second):
        # The wheel of these is built from the sdist, not from the checkout.
        build(target, environ)
    build(direct, environ, "--wheel")
    for name, places in {
        "*.tar.gz": (first, second),
        "*.whl": (first, second, direct),
    }.items():
        files = [next(place.glob(name)) for place in places]
        hashes = {hashlib.sha256(file.read_bytes()).hexdigest() for file in files}
        if len(hashes) != 1:
            raise ValueError(f"{files[0].name} is another file each time that it is built")
        tell(f"{files[0].name}: {files[0].stat().st_size:,} bytes, sha256 {hashes.pop()}")
    DIST.mkdir(exist_ok=True)
    wheel, sdist = (Path(shutil.copy(next(first.glob(name)), DIST)) for name in ("*.whl", "*.gz"))
    return wheel, sdist


def time_of_commit() -> str:
    """Return when the last commit was made, so that everybody builds the same bytes of it."""
    command = ["git", "log", "-1", "--format=%ct"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def build(target: Path, environ: Mapping[str, str], *more: str) -> None:
    """Build into a folder, with the hatchling that is installed: another one may pack otherwise."""
    build = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(target), *more]
    subprocess.run(build, cwd=ROOT, env=environ, check=True, capture_output=True)


def check(wheel: Path, sdist: Path) -> None:
    """Have the tools for packages look at both. Raises CalledProcessError, ValueError."""
    run([SCRIPTS / "twine", "check", "--strict", wheel, sdist])
    run([SCRIPTS / "check-wheel-contents", wheel])
    if wrong := JsonStrictValidator(SchemaVersion.V1_6).validate_str(SBOM.read_text()):
        raise ValueError(f"{SBOM.name} is no CycloneDX: {wrong}")
    run([SCRIPTS / "pyroma", "--file", "--min", "10", "--skip-tests", ADDRESSES, sdist])


def check_manifests() -> None:
    """Hold the Kubernetes files against the newest schemas. Raises ValueError.

    A ServiceMonitor is no part of Kubernetes, so there is no schema of it.
    """
    version = kubernetes_validate.latest_version()
    for file in sorted((ROOT / "docs" / "deploy").glob("kubernetes*.yaml")):
        for document in yaml.safe_load_all(file.read_text()):
            if document["kind"] == "ServiceMonitor":
                continue
            try:
                kubernetes_validate.validate(document, version, strict=True)
            except kubernetes_validate.ValidationError as error:
                raise ValueError(f"{file.name}, {document['kind']}: {error.message}") from error
        tell(f"{file.name}: as Kubernetes {version} has it")


def use(wheel: Path, folder: Path, interpreter: str) -> None:
    """Install the wheel alone, and use it where no checkout is. Raises CalledProcessError."""
    folder.mkdir()
    environment = folder / "environment"
    # Without pip: then the list of what is installed names what Retrier needs, and no more.
    run([interpreter, "-m", "venv", "--without-pip", environment])
    pip: list[str | Path] = [
        sys.executable,
        "-m",
        "pip",
        "--python",
        environment,
        "install",
        "--quiet",
    ]
    run([*pip, wheel])
    listed = DIST / "retrier.cdx.json"
    python, retrier = (environment / "bin" / name for name in ("python", "retrier"))
    sbom: list[str | Path] = [
        SCRIPTS / "cyclonedx-py",
        "environment",
        "--output-reproducible",
        "--short-PURLs",
    ]
    run([*sbom, "--pyproject", ROOT / "pyproject.toml", "--output-file", listed, python])
    tell(f"{listed.name}: valid CycloneDX")
    run([python, "--version"])
    run([retrier, "version"], folder)
    run([retrier, "demo", "--once"], folder)
    ask_page(retrier, folder)
    run([*pip, f"{wheel}[celery,dramatiq]"])
    run([python, "-W", "error", "-c", f"import {', '.join(IMPORTED)}"], folder)
    tell("installed and used without the checkout")


def ask_page(retrier: Path, folder: Path) -> None:
    """Start the service as it comes, and look at its page. Raises ValueError."""
    command = [str(retrier), "run", "--port", "0"]
    with subprocess.Popen(command, cwd=folder, stderr=subprocess.PIPE, text=True) as service:
        try:
            told = list(takewhile(lambda line: STARTED not in line, service.stderr or ()))
            address = next((found[1] for found in map(ADDRESS.search, told) if found), "")
            if not address:
                raise ValueError("retrier run ended before it said where its page is")
            with urlopen(address) as answer:  # noqa: S310 - http, as the service has said
                page = answer.read().decode()
            if "<title>" not in page:
                raise ValueError(f"{address} shows no page")
        finally:
            service.terminate()
            service.communicate(timeout=30)
    tell("retrier run: the page answers")


def run(command: Iterable[str | Path], folder: Path = ROOT) -> None:
    """Run a program, and let it talk. Raises CalledProcessError."""
    subprocess.run(list(command), cwd=folder, check=True)


def tell(line: str) -> None:
    """Write a line, after what programs have written."""
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
