"""A Slurm of one node on the loopback, with all its files in one folder.

Started for one command, and stopped after it::

    python tests/slurm/cluster.py FOLDER [--accounting] -- COMMAND...

Debian and Ubuntu: ``apt install slurm-wlm munge``, for accounting ``slurmdbd mariadb-server``, too.
The daemons belong to whoever starts them, need no systemd and no root, and listen on 127.0.0.1.
"""

import argparse
import getpass
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

# Where a Slurm that is already there has its configuration.
CONFIGURED = (
    "/etc/slurm/slurm.conf",
    "/etc/slurm-llnl/slurm.conf",
    "/usr/local/etc/slurm.conf",
    "/run/slurm/conf/slurm.conf",
)
PACKAGES = {
    "munged": "munge",
    "slurmctld": "slurmctld",
    "slurmd": "slurmd",
    "srun": "slurm-client",
}
ACCOUNTING_PACKAGES = {
    "slurmdbd": "slurmdbd",
    "mariadbd": "mariadb-server",
    "mariadb-install-db": "mariadb-server",
}
SBIN = "/usr/local/sbin:/usr/sbin:/sbin"  # of the daemons; not on every user's PATH
LONGEST_SOCKET = 100  # characters of a socket's path that the system takes, less a few
PATIENCE = 180  # seconds until a daemon answers, on a machine that is busy
PAUSE = 0.2  # seconds between two looks

# A node of a size that all jobs of smoke fit, whatever this machine is. Memory is a resource that jobs
# ask for: one that holds more than it asked for is killed within a second, and one that asks for
# none gets DefMemPerCPU.
SLURM_CONF = """\
ClusterName=kit
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={slurmctld}
SlurmdPort={slurmd}
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.pid
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
MailProg=/bin/true
ReturnToService=2
SlurmdParameters=config_overrides
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
DefMemPerCPU=1000
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherParams=OverMemoryKill
JobAcctGatherFrequency=task=1
KillWait=10
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=16000
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE
"""
ACCOUNTING = """\
AccountingStorageType=accounting_storage/slurmdbd
AccountingStoreFlags=job_comment
AccountingStorageHost=127.0.0.1
AccountingStoragePort={slurmdbd}
AccountingStoragePass={folder}/munge.socket
"""
SLURMDBD_CONF = """\
DbdHost={host}
DbdAddr=127.0.0.1
DbdPort={slurmdbd}
CommunicationParameters=NoInAddrAny
SlurmUser={user}
AuthType=auth/munge
AuthInfo=socket={folder}/munge.socket
PidFile={folder}/slurmdbd.pid
StorageType=accounting_storage/mysql
StorageHost=127.0.0.1
StoragePort={mariadbd}
StorageUser=slurm
StoragePass={password}
"""
# Snakemake's executor for job steps keeps SLURM_CONF from srun.
SRUN = """\
#!/bin/sh
SLURM_CONF={folder}/slurm.conf exec {srun} "$@"
"""
DATABASE = """\
CREATE DATABASE IF NOT EXISTS slurm_acct_db;
CREATE USER IF NOT EXISTS slurm@'127.0.0.1' IDENTIFIED BY '{password}';
GRANT ALL ON slurm_acct_db.* TO slurm@'127.0.0.1';
"""


class SlurmError(SystemExit):
    """No Slurm can be started here; the message says why."""


def why_not(accounting: bool = True) -> str:
    """Return why no Slurm can be started here; "" where one can."""
    configured = [path for path in CONFIGURED if Path(path).exists()]
    configured += [f"{name}={os.environ[name]}" for name in ("SLURM_CONF",) if name in os.environ]
    if configured:
        return f"a Slurm is configured here ({configured[0]}): this one is for machines without"
    programs = PACKAGES | (ACCOUNTING_PACKAGES if accounting else {})
    missing = {package for program, package in programs.items() if not which(program)}
    if missing:
        return f"no Slurm to start: apt install {' '.join(sorted(missing))}"
    return ""


def which(program: str) -> str | None:
    """Return the path of a program, a daemon included; None where it is not installed."""
    return shutil.which(program, path=f"{os.environ.get('PATH', '')}:{SBIN}")


@contextmanager
def slurm(folder: Path, accounting: bool) -> Iterator[dict[str, str]]:
    """Start a Slurm, and stop it with all its jobs after the block.

    Parameters
    ----------
    folder
        Gets its configuration, logs, state and database; empty or new.
    accounting
        With slurmdbd and a MariaDB, so that `sacct` answers.

    Yields
    ------
    dict
        The environment of commands that talk to it.

    Raises
    ------
    SlurmError
        It can't be started here.
    """
    reason = why_not(accounting)
    if reason:
        raise SlurmError(reason)
    folder = folder.resolve()
    refuse_folder(folder)
    configure(folder, accounting)
    environment = os.environ | {
        "SLURM_CONF": str(folder / "slurm.conf"),
        "PATH": f"{folder / 'bin'}:{os.environ.get('PATH', '')}:{SBIN}",
    }
    with ExitStack() as running:
        start_munge(running, folder, environment)
        if accounting:
            start_database(running, folder, environment)
        start_slurm(running, folder, environment)
        running.callback(cancel_all, environment)
        yield environment


def refuse_folder(folder: Path) -> None:
    """Refuse a folder that holds files, or whose sockets would have too long a path."""
    if folder.is_dir() and any(folder.iterdir()):
        raise SlurmError(f"{folder} is not empty: name a new folder")
    if len(str(folder)) > LONGEST_SOCKET - len("/munge.socket"):
        raise SlurmError(f"{folder} is too long a path for sockets: name a shorter one")


def configure(folder: Path, accounting: bool) -> None:
    """Write the configuration of all daemons into a folder."""
    for part in ("state", "spool", "database", "bin"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    values = {
        "folder": folder,
        "host": socket.gethostname().split(".")[0],
        "user": getpass.getuser(),
        "password": secrets.token_hex(16),
        **free_ports("slurmctld", "slurmd", "slurmdbd", "mariadbd"),
    }
    settings = SLURM_CONF + (ACCOUNTING if accounting else "")
    private(folder / "slurm.conf", settings.format(**values))
    private(folder / "munge.key", secrets.token_hex(512))
    srun = folder / "bin" / "srun"
    private(srun, SRUN.format(folder=folder, srun=which("srun")))
    srun.chmod(0o700)
    if accounting:
        private(folder / "slurmdbd.conf", SLURMDBD_CONF.format(**values))
        private(folder / "database.sql", DATABASE.format(**values))
        private(folder / "mariadb.port", str(values["mariadbd"]))


def private(path: Path, text: str) -> None:
    """Write a file that only its owner reads."""
    path.touch(mode=0o600)
    path.write_text(text)


def free_ports(*names: str) -> dict[str, int]:
    """Return a free port of the loopback for each name."""
    with ExitStack() as bound:
        sockets = {name: bound.enter_context(socket.socket()) for name in names}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in sockets.items()}


def start_munge(running: ExitStack, folder: Path, environment: dict[str, str]) -> None:
    """Start munged, by which the daemons know each other."""
    paths = {
        "socket": "munge.socket",
        "key-file": "munge.key",
        "log-file": "munge.log",
        "pid-file": "munge.pid",
        "seed-file": "munge.seed",
    }
    options = [f"--{option}={folder / name}" for option, name in paths.items()]
    # --force: other users can't reach the socket, and need not
    start(running, folder, environment, "munged", "--foreground", "--force", *options)
    until(lambda: (folder / "munge.socket").exists(), "munged", folder)


def start_database(running: ExitStack, folder: Path, environment: dict[str, str]) -> None:
    """Start MariaDB and, over it, slurmdbd."""
    port = (folder / "mariadb.port").read_text()
    user = f"--user={getpass.getuser()}"
    where = f"--datadir={folder / 'database'}"
    install = [which("mariadb-install-db"), "--no-defaults", user, where]
    install += ["--skip-test-db", "--auth-root-authentication-method=normal"]
    with (folder / "mariadb-install-db.log").open("w") as log:
        installed = subprocess.run(install, stdout=log, stderr=log, env=environment)
    if installed.returncode:
        raise SlurmError(failure("mariadb-install-db", folder))
    options = [
        "--no-defaults",
        user,
        where,
        f"--port={port}",
        f"--socket={folder / 'mariadb.socket'}",
        f"--pid-file={folder / 'mariadb.pid'}",
        f"--init-file={folder / 'database.sql'}",
        f"--tmpdir={folder / 'database'}",
        "--bind-address=127.0.0.1",
        "--innodb-buffer-pool-size=64M",
        "--innodb-lock-wait-timeout=900",  # both as slurmdbd asks for
        "--skip-log-bin",
    ]
    start(running, folder, environment, "mariadbd", *options)
    until(lambda: answers(int(port)), "mariadbd", folder)
    start(running, folder, environment, "slurmdbd", "-D")
    clusters = ["sacctmgr", "--noheader", "--immediate", "list", "cluster"]
    until(lambda: succeeds(clusters, environment), "slurmdbd", folder)


def start_slurm(running: ExitStack, folder: Path, environment: dict[str, str]) -> None:
    """Start slurmctld and slurmd, and wait until the node takes jobs."""
    start(running, folder, environment, "slurmctld", "-D", "-c")
    until(lambda: succeeds(["scontrol", "ping"], environment), "slurmctld", folder)
    start(
        running, folder, environment, "slurmd", "-D", "-c", "-N", socket.gethostname().split(".")[0]
    )
    until(lambda: "idle" in said(["sinfo", "-h", "-o", "%T"], environment), "slurmd", folder)


def start(
    running: ExitStack, folder: Path, environment: dict[str, str], name: str, *options: str
) -> None:
    """Start a daemon in the foreground; it is stopped when `running` is left."""
    with (folder / f"{name}.log").open("w") as log:
        daemon = subprocess.Popen(
            [which(name), *options],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            cwd=folder,
            start_new_session=True,  # Ctrl-C of the command does not reach it
        )
    running.callback(stop, daemon)


def stop(daemon: subprocess.Popen) -> None:
    """End a daemon, and wait until it has ended."""
    daemon.terminate()
    try:
        daemon.wait(PATIENCE)
    except subprocess.TimeoutExpired:
        daemon.kill()
        daemon.wait()


def cancel_all(environment: dict[str, str]) -> None:
    """Cancel all jobs, and wait until none of them runs."""
    subprocess.run(["scancel", "--user", getpass.getuser()], env=environment)
    deadline = time.monotonic() + PATIENCE
    while said(["squeue", "--noheader"], environment).strip() and time.monotonic() < deadline:
        time.sleep(PAUSE)


def until(is_so: Callable[[], bool], daemon: str, folder: Path) -> None:
    """Wait until a daemon answers; its log is the message if it does not."""
    deadline = time.monotonic() + PATIENCE
    while not is_so():
        if time.monotonic() > deadline:
            raise SlurmError(failure(daemon, folder))
        time.sleep(PAUSE)


def failure(daemon: str, folder: Path) -> str:
    """Return what a daemon that does not answer said last."""
    logs = sorted(folder.glob(f"{re.sub('d$', '', daemon)}*.log"))
    last = [line for log in logs for line in log.read_text().splitlines()[-10:]]
    return "\n".join([f"{daemon} did not start; it said:", *last])


def answers(port: int) -> bool:
    """Return whether something listens on a port of the loopback."""
    with socket.socket() as tried:
        return tried.connect_ex(("127.0.0.1", port)) == 0


def succeeds(command: list[str], environment: dict[str, str]) -> bool:
    """Return whether a command ends well."""
    return not subprocess.run(command, env=environment, capture_output=True).returncode


def said(command: list[str], environment: dict[str, str]) -> str:
    """Return what a command prints, "" if it fails."""
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    return "" if done.returncode else done.stdout


def stopped_by_signal(number: int, frame: object) -> None:
    """Leave by the exit that stops the daemons."""
    raise SystemExit(128 + number)


def main() -> int:
    """Run a command beside a Slurm of its own."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("folder", type=Path, help="gets its configuration, logs and state")
    parser.add_argument("--accounting", action="store_true", help="with slurmdbd and MariaDB")
    parser.add_argument("command", nargs="+")
    args = parser.parse_args()
    signal.signal(signal.SIGTERM, stopped_by_signal)
    with slurm(args.folder, args.accounting) as environment:
        return subprocess.run(args.command, env=environment).returncode


if __name__ == "__main__":
    sys.exit(main())
