"""Ask for known vulnerabilities of what the installed simkubelet needs at run time, in the versions that are installed.

pip-audit asks PyPI. Where the advisories cannot be had, as behind an index that has only the packages, one line says so
and the exit status is 0; it is 1 where there are advisories for a version.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from packaging.requirements import Requirement


def requirements(name: str) -> Iterator[tuple[str, str]]:
    """Yield name and version of all that an installed distribution needs, without extras and without itself."""
    waiting, seen = [(name, "")], {(name, "")}
    while waiting:
        one, extra = waiting.pop()
        for text in distribution(one).requires or []:
            needed = Requirement(text)
            if needed.marker is not None and not needed.marker.evaluate({"extra": extra}):
                continue
            for further in {(needed.name, ""), *((needed.name, wanted) for wanted in needed.extras)} - seen:
                seen.add(further)
                waiting.append(further)
    yield from sorted({(one, distribution(one).version) for one, _ in seen if one != name})


def audit(pinned: dict[str, str]) -> list[dict[str, Any]]:
    """Return pip-audit's findings, one of each distribution.

    Raises:
        LookupError: it has found nothing out; the message says why.
    """
    with tempfile.TemporaryDirectory() as folder:
        listed = Path(folder, "requirements.txt")
        listed.write_text("".join(f"{name}=={version}\n" for name, version in pinned.items()), encoding="utf-8")
        command = [sys.executable, "-m", "pip_audit", "--no-deps", "--disable-pip", "--format=json", "-r", str(listed)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise LookupError((done.stderr.strip().splitlines() or ["pip-audit says nothing"])[-1])
    found: list[dict[str, Any]] = json.loads(done.stdout)["dependencies"]
    if all("skip_reason" in one for one in found):
        raise LookupError(found[0]["skip_reason"] if found else "nothing was audited")
    return found


def main() -> int:
    pinned = dict(requirements("simkubelet"))
    try:
        found = audit(pinned)
    except LookupError as reason:
        print(f"advisories: skipped, as they cannot be had here: {reason}")
        return 0
    for one in found:
        if "skip_reason" in one:
            print(f"{one['name']}: not audited: {one['skip_reason']}")
        for advisory in one.get("vulns", []):
            fixed = ", ".join(advisory["fix_versions"]) or "no version yet"
            print(f"{one['name']} {one['version']}: {advisory['id']}, fixed in {fixed}")
    affected = sum(bool(one.get("vulns")) for one in found)
    print(f"{affected} of {len(pinned)} distributions have known vulnerabilities")
    return 1 if affected else 0


if __name__ == "__main__":
    sys.exit(main())
