"""Where a result came from: parameters, commit, versions, device, checksums, seconds.

Field names follow ir_metadata (Breuer et al., SIGIR 2022): platform, implementation, data, method,
research goal.
"""

import os
import platform
import re
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any

from interextra.store.processor import CPU

RANGE = r"[^\w.-]"  # of versions, an extra or a marker: what ends the name in a requirement


def commit(root: Path) -> str:
    """Return the Git commit of a repository, with `+changes` when the tree differs from it.

    `unknown` without git.
    """
    describe = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        done = subprocess.run(
            describe, cwd=root, capture_output=True, text=True, check=True, timeout=20
        )
    except (OSError, subprocess.SubprocessError):
        return "unknown"
    return done.stdout.strip()


def versions() -> dict[str, str]:
    """Return the installed version of this package and of each that it needs."""
    found = {}
    requirements = metadata.requires("interextra") or ()
    needed = [re.split(RANGE, requirement, maxsplit=1)[0] for requirement in requirements]
    for name in ("interextra", *needed):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def processor() -> str:
    """Return name, family and model of the processor.

    Trained numbers repeat to the last bits on one model only.
    """
    text = CPU.read_text(encoding="utf-8") if CPU.is_file() else ""
    first_core = text.partition("\n\n")[0]
    facts = {}
    for line in first_core.splitlines():
        name, _, value = line.partition(":")
        facts[name.strip()] = value.strip()
    if "model name" not in facts:
        return platform.machine()
    family_and_model = f"family {facts['cpu family']}, model {facts['model']}"
    return f"{facts['model name']}, {family_and_model}"


def record(root: Path, **sections: Any) -> dict[str, Any]:
    """Return a provenance record in ir_metadata's terms.

    Parameters
    ----------
    root
        Of the repository; the commit of another folder says nothing of this code.
    sections
        Further sections; `_` in their names becomes a space.
    """
    torch = sys.modules.get("torch")  # not imported only to ask
    device = "cpu"
    if torch and torch.cuda.is_available():
        device = torch.cuda.get_device_name(0)
    hardware = {"processor": processor(), "cores": os.cpu_count(), "device": device}
    software = {"python": platform.python_version(), "libraries": versions()}
    is_checkout = (root / "params").is_dir()  # else the user's own project, or the cache
    made_by = commit(root) if is_checkout else "unknown"
    source = {"repository": "interextra", "commit": made_by}
    return {
        "ir_metadata_schema": "0.1",
        "platform": {
            "hardware": hardware,
            "operating system": platform.platform(),
            "software": software,
        },
        "implementation": {"source": source},
        **{name.replace("_", " "): value for name, value in sections.items()},
    }
