"""What the proof found, as a table for people and one line of JSON."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from statistics import median

from tests.endurance.instances.misfortunes import Misfortune
from tests.endurance.instances.proof import Plan, Proof


def describe(misfortune: Misfortune) -> str:
    """Tell one misfortune in a line."""
    parts = []
    for struck in misfortune.struck:
        took, first = (
            f"{each:.1f} s" if each else "-" for each in (struck.takeover, struck.forward)
        )
        whom = "leader" if struck.leads else "standby"
        parts.append(f"{struck.blow:12} {whom:7} taken over after {took:>6}, forwarded {first:>6}")
    problems = [f"!! {problem}" for problem in misfortune.problems]
    blockers = [f"   others waited for {each}" for each in sorted(misfortune.blockers)[:5]]
    return "\n".join(["; then ".join([*parts, *problems]), *blockers])


def make_table(proof: Proof) -> str:
    """Return the figures, one a line."""
    figures = asdict(proof.count)
    problems = figures.pop("problems")
    lines = [f"{name.replace('_', ' '):16} {value}" for name, value in figures.items()]
    for name, (times, spread) in takeovers(proof.misfortunes).items():
        lines.append(f"{name:16} {times} times: min, median, max {spread}")
    lines.append(f"seconds          {proof.seconds:.0f}")
    lines += [f"VIOLATION: {problem}" for problem in problems]
    return "\n".join(lines)


def make_json(plan: Plan, proof: Proof) -> str:
    """Return everything on one line."""
    asked = {key: value for key, value in asdict(plan).items() if not key.endswith("url")}
    times = {name: spread for name, (_, spread) in takeovers(proof.misfortunes).items()}
    return json.dumps({**asked, **asdict(proof.count), "takeover_seconds": times})


def takeovers(misfortunes: Sequence[Misfortune]) -> dict[str, tuple[int, tuple[float, ...]]]:
    """Return how often, and the least, the median and the longest, by what was struck."""
    struck = [each for one in misfortunes for each in one.struck if each.leads]
    kinds = {
        f"after {each.blow}": [one for one in struck if one.blow == each.blow] for each in struck
    }
    found = {"taken over": [each.takeover for each in struck]}
    found |= {name: [each.takeover for each in those] for name, those in sorted(kinds.items())}
    found["forwarded again"] = [each.forward for each in struck]
    return {
        name: _spread([time for time in times if time is not None]) for name, times in found.items()
    }


def _spread(times: Sequence[float]) -> tuple[int, tuple[float, ...]]:
    if not times:
        return 0, ()
    return len(times), tuple(round(each, 1) for each in (min(times), median(times), max(times)))
