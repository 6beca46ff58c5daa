"""The Slurm of `make test-slurm` starts, limits memory, and leaves nothing; else it says why not."""

import getpass
import subprocess
import sys
from pathlib import Path

import pytest
from slurm import cluster

HOLDS_300_MB = "import time; held = bytearray(300_000_000); time.sleep(60)"


@pytest.fixture
def unconfigured(monkeypatch):
    """A machine on which no Slurm is configured."""
    monkeypatch.delenv("SLURM_CONF", raising=False)
    monkeypatch.setattr(cluster, "CONFIGURED", ())


def test_a_machine_with_a_slurm_is_left_alone(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_CONF", "/somewhere/slurm.conf")
    monkeypatch.setattr(cluster, "CONFIGURED", ())
    message = "a Slurm is configured here \\(SLURM_CONF=/somewhere/slurm.conf\\)"
    with pytest.raises(SystemExit, match=message), cluster.slurm(tmp_path / "slurm", False):
        pass
    assert not (tmp_path / "slurm").exists()


def test_missing_packages_are_named(unconfigured, monkeypatch):
    monkeypatch.setattr(cluster, "which", lambda program: None)
    assert cluster.why_not(accounting=False).endswith(
        "apt install munge slurm-client slurmctld slurmd"
    )
    assert "mariadb-server" in cluster.why_not(accounting=True)


def test_a_folder_with_files_is_refused(tmp_path):
    (tmp_path / "mine").touch()
    with pytest.raises(SystemExit, match="is not empty"):
        cluster.refuse_folder(tmp_path)


def test_a_job_over_its_memory_is_killed_and_no_daemon_stays(tmp_path):
    reason = cluster.why_not(accounting=False)
    if reason:
        pytest.skip(reason)
    folder = tmp_path / "slurm"
    with cluster.slurm(folder, accounting=False) as environment:
        within, over = (
            subprocess.run(
                ["srun", "--quiet", f"--mem={megabytes}", sys.executable, "-c", code],
                env=environment,
                capture_output=True,
                text=True,
                timeout=120,
            )
            for megabytes, code in ((500, "print('ran')"), (100, HOLDS_300_MB))
        )
    assert (within.stdout, within.returncode) == ("ran\n", 0), within.stderr
    assert over.returncode and "exceeded memory limit" in over.stderr
    assert not [line for line in processes() if str(folder) in line]


def processes():
    """The command lines of all processes of this user."""
    return [
        path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if path.exists() and path.parent.owner() == getpass.getuser()
    ]
