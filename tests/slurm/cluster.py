"""A Slurm of one node on the loopback, with all its files in one folder.

Started for one command, and stopped after it::

    python tests/slurm/cluster.py FOLDER [--accounting] -- COMMAND...

Debian and Ubuntu: ``apt install slurm-wlm munge``, for accounting ``slurmdbd mariadb-server``, too.
The daemons belong to whoever starts them, need no systemd and no root, and listen on 127.0.0.1.
"""

import argparse
import getpass
import os
import secrets
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
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
SBIN = ":/usr/local/sbin:/usr/sbin:/sbin"  # of the daemons; not on every user's PATH
LONGEST_SOCKET = 100  # characters of a socket's path that the system takes, less a few
PATIENCE = 180  # seconds until a daemon answers, on a machine that is busy
PAUSE = 0.2  # seconds between two looks

# A node of a size that all jobs of smoke fit, and any one of the paper's profile on miniatures,
# whatever this machine is; its GPUs are counted, and none is there. Memory is a resource that jobs
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
GresTypes=gpu
NodeName={host} NodeAddr=127.0.0.1 CPUs=4 RealMemory=48000 Gres=gpu:4
PartitionName=main Nodes={host} Default=YES MaxTime=INFINITE
"""
GRES_CONF = "Name=gpu File={folder}/gpu[0-3]\n"  # files that stand for devices
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
    if "SLURM_CONF" in os.environ:
        configured.append(f"SLURM_CONF={os.environ['SLURM_CONF']}")
    if configured:
        return f"a Slurm is configured here ({configured[0]}): this one is for machines without"
    programs = PACKAGES | ACCOUNTING_PACKAGES if accounting else PACKAGES
    missing = {package for program, package in programs.items() if not which(program)}
    if missing:
        return f"no Slurm to start: apt install {' '.join(sorted(missing))}"
    return ""


def which(program: str) -> str | None:
    """Return the path of a program, a daemon included; None where it is not installed."""
    return shutil.which(program, path=os.environ.get("PATH", "") + SBIN)


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
    ports = free_ports("slurmctld", "slurmd", "slurmdbd", "mariadbd")
    configure(folder, ports, accounting)
    with ExitStack() as running:
        daemons = Daemons(folder, running)
        running.callback(end_orphans, folder)
        daemons.start_munge()
        if accounting:
            daemons.start_database(ports["mariadbd"])
        daemons.start_slurm()
        running.callback(cancel_all, daemons.environment)
        yield daemons.environment


def refuse_folder(folder: Path) -> None:
    """Refuse a folder that holds files, or whose sockets would have too long a path."""
    if folder.is_dir() and any(folder.iterdir()):
        raise SlurmError(f"{folder} is not empty: name a new folder")
    if len(f"{folder}/munge.socket") > LONGEST_SOCKET:
        raise SlurmError(f"{folder} is too long a path for sockets: name a shorter one")


def configure(folder: Path, ports: dict[str, int], accounting: bool) -> None:
    """Write the configuration of all daemons into a folder."""
    for part in ("state", "spool", "database", "bin"):
        (folder / part).mkdir(parents=True, exist_ok=True)
    values = {
        "folder": folder,
        "host": host(),
        "user": getpass.getuser(),
        "password": secrets.token_hex(16),
        "srun": which("srun"),
        **ports,
    }
    settings = SLURM_CONF + ACCOUNTING if accounting else SLURM_CONF
    private(folder / "slurm.conf", settings.format(**values))
    private(folder / "gres.conf", GRES_CONF.format(**values))
    for number in range(4):
        (folder / f"gpu{number}").touch()
    private(folder / "munge.key", secrets.token_hex(512))
    private(folder / "bin" / "srun", SRUN.format(**values), mode=0o700)
    if accounting:
        private(folder / "slurmdbd.conf", SLURMDBD_CONF.format(**values))
        private(folder / "database.sql", DATABASE.format(**values))


def host() -> str:
    """Return the name of this machine, without its domain: of the one node, too."""
    return socket.gethostname().partition(".")[0]


def private(path: Path, text: str, mode: int = 0o600) -> None:
    """Write a file for its owner alone."""
    path.touch(mode=mode)
    path.write_text(text)


def free_ports(*names: str) -> dict[str, int]:
    """Return a free port of the loopback for each name."""
    with ExitStack() as bound:
        sockets = {name: bound.enter_context(socket.socket()) for name in names}
        for each in sockets.values():
            each.bind(("127.0.0.1", 0))
        return {name: each.getsockname()[1] for name, each in sockets.items()}


class Daemons:
    """The daemons in a folder.

    Parameters
    ----------
    folder
        Holds their configuration, and gets their logs.
    running
        Stops them, the last one first, when it is left.
    """

    def __init__(self, folder: Path, running: ExitStack):
        self.folder = folder
        self.running = running
        self.environment = os.environ | {
            "SLURM_CONF": f"{folder}/slurm.conf",
            "PATH": f"{folder}/bin:" + os.environ.get("PATH", "") + SBIN,
        }

    def start_munge(self) -> None:
        """Start munged, by which the daemons know each other."""
        self.start(
            "munged",
            "--foreground",
            "--force",  # other users can't reach the socket, and need not
            f"--socket={self.folder}/munge.socket",
            f"--key-file={self.folder}/munge.key",
            f"--log-file={self.folder}/munge.log",
            f"--pid-file={self.folder}/munge.pid",
            f"--seed-file={self.folder}/munge.seed",
        )
        self.until((self.folder / "munge.socket").exists, "munged")

    def start_database(self, port: int) -> None:
        """Start MariaDB and, over it, slurmdbd."""
        common = ["--no-defaults", f"--user={getpass.getuser()}"]
        common += [f"--datadir={self.folder}/database", f"--tmpdir={self.folder}/database"]
        options = ["--skip-test-db", "--auth-root-authentication-method=normal"]
        name = "mariadb-install-db"
        if self.launch(name, *common, *options).wait():
            raise SlurmError(self.failure(name))
        self.start(
            "mariadbd",
            *common,
            f"--port={port}",
            "--bind-address=127.0.0.1",
            f"--socket={self.folder}/mariadb.socket",
            f"--pid-file={self.folder}/mariadb.pid",
            f"--init-file={self.folder}/database.sql",
            "--innodb-buffer-pool-size=64M",
            "--innodb-lock-wait-timeout=900",  # as slurmdbd asks for
            "--skip-log-bin",
        )
        self.until(lambda: answers(port), "mariadbd")
        self.start("slurmdbd", "-D")
        clusters = ["sacctmgr", "--noheader", "--immediate", "list", "cluster"]
        self.until(lambda: succeeds(clusters, self.environment), "slurmdbd")

    def start_slurm(self) -> None:
        """Start slurmctld and slurmd, and wait until the node takes jobs."""
        self.start("slurmctld", "-D", "-c")
        self.until(lambda: succeeds(["scontrol", "ping"], self.environment), "slurmctld")
        self.start("slurmd", "-D", "-c", "-N", host())
        states = ["sinfo", "--noheader", "--format=%T"]
        self.until(lambda: "idle" in said(states, self.environment), "slurmd")

    def start(self, name: str, *options: str) -> None:
        """Start a daemon in the foreground, to be stopped when `running` is left."""
        self.running.callback(stop, self.launch(name, *options))

    def launch(self, name: str, *options: str) -> subprocess.Popen:
        """Start a program whose output is its log."""
        with (self.folder / f"{name}.log").open("w") as log:
            return subprocess.Popen(
                [which(name), *options],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env=self.environment,
                cwd=self.folder,
                start_new_session=True,  # Ctrl-C of the command does not reach it
            )

    def until(self, is_so: Callable[[], bool], daemon: str) -> None:
        """Wait until a daemon answers."""
        deadline = time.monotonic() + PATIENCE
        while not is_so():
            if time.monotonic() > deadline:
                raise SlurmError(self.failure(daemon))
            time.sleep(PAUSE)

    def failure(self, name: str) -> str:
        """Return what a program that does not answer said last."""
        lines = (self.folder / f"{name}.log").read_text().splitlines()
        return "\n".join([f"{name} did not start; it said:", *lines[-10:]])


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


def end_orphans(folder: Path) -> None:
    """End what jobs left: processes whose parent ended before them, so that Slurm lost them."""
    ours = f"SLURM_CONF={folder}/slurm.conf".encode()
    for path in Path("/proc").glob("[0-9]*/environ"):
        with suppress(OSError):
            variables = path.read_bytes()
            if ours in variables and b"SLURM_JOB_ID=" in variables:
                os.kill(int(path.parent.name), signal.SIGKILL)


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
