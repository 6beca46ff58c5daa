"""Where a result came from: parameters, commit, versions, device, checksums, seconds.

Field names follow ir_metadata (Breuer et al., SIGIR 2022): platform, implementation, data, method,
research goal.
"""

import os
import platform
import subprocess
import sys
from contextlib import suppress
from importlib import metadata
from pathlib import Path
from typing import Any


def commit(root: Path) -> str:
    """Git commit of the repository, with `+changes` when the tree differs from it; `unknown`
    without git.
    """
    describe = ["git", "describe", "--always", "--abbrev=40", "--exclude=*", "--dirty=+changes"]
    try:
        return subprocess.run(
            describe, cwd=root, capture_output=True, text=True, check=True, timeout=20
        ).stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return "unknown"


def versions() -> dict[str, str]:
    """Installed version of this package and of each that it needs."""
    found = {}
    for name in ("interextra", "faiss-cpu", *metadata.requires("interextra")):
        with suppress(metadata.PackageNotFoundError):
            found[name] = metadata.version(name)
    return found


def processor() -> str:
    """Name, family and model of the processor: trained numbers repeat to the last bits on one model
    only.
    """
    cpu = Path("/proc/cpuinfo")
    lines = (
        cpu.read_text(encoding="utf-8").partition("\n\n")[0].splitlines() if cpu.is_file() else []
    )
    facts = {
        name.strip(): value.strip() for name, _, value in (line.partition(":") for line in lines)
    }
    if "model name" not in facts:
        return platform.machine()
    return f"{facts['model name']}, family {facts['cpu family']}, model {facts['model']}"


def record(root: Path, **sections: Any) -> dict:
    """One provenance record in ir_metadata's terms, with further sections; `root`: of the
    repository.
    """
    torch = sys.modules.get("torch")  # not imported only to ask
    device = torch.cuda.get_device_name(0) if torch and torch.cuda.is_available() else "cpu"
    return {
        "ir_metadata_schema": "0.1",
        "platform": {
            "hardware": {"processor": processor(), "cores": os.cpu_count(), "device": device},
            "operating system": platform.platform(),
            "software": {"python": platform.python_version(), "libraries": versions()},
        },
        "implementation": {"source": {"repository": "interextra", "commit": commit(root)}},
        **{name.replace("_", " "): value for name, value in sections.items()},
    }
