"""The Snakefile plans the same cells as the command line."""

import shutil
import subprocess
import sys


def test_snakemake_plans_every_cell_and_the_notebooks(root, tmp_path):
    for name in ("notebooks", "params"):
        shutil.copytree(root / name, tmp_path / name, ignore=shutil.ignore_patterns(".*"))
    shutil.copy(root / "Snakefile", tmp_path)
    path = f"{sys.prefix}/bin"
    command = [f"{path}/snakemake", "-n", "--cores", "2", "--config", "profile=smoke", "only=00"]
    environment = {"PATH": f"{path}:/usr/bin:/bin", "HOME": str(tmp_path), "INTEREXTRA_CACHE": str(tmp_path / "cache")}
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.count("rule cell:") == 4 and done.stdout.count("rule notebooks:") == 1
