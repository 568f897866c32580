"""Isolation by bubblewrap: separate namespaces, a file system with only Python, and no network.

A filter blocks system calls that no generated program needs. Without it, a program could create a user namespace, be
root in it, and mount memory that no limit counts.
"""

from __future__ import annotations

import functools
import importlib
import json
import math
import os
import platform
import resource
import shutil
import struct
import subprocess
import sys
import sysconfig
from collections.abc import Mapping
from pathlib import Path

from reground.core.errors import SandboxUnavailable
from reground.core.programs import Limits
from reground.sandbox.engine import Job, Launch

HARNESS = Path(__file__).parent / "harness"
FILE_MIB = 64
FEWEST_FILES = 64
_ULIMIT = {"AS": "-v", "CPU": "-t", "FSIZE": "-f", "NPROC": "-u", "NOFILE": "-n"}
SCRATCH = ("/dev/shm", "/tmp", "/home")  # noqa: S108
SCRATCH_MIB = 32
_INTERPRETER_MIB = 96
_ENVIRONMENT = {
    **{"PATH": "/usr/bin", "HOME": "/home", "TMPDIR": "/box", "LANG": "C.UTF-8", "TZ": "UTC"},
    **{"PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUTF8": "1"},
    **{"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
}
_BOOT = "import sys; sys.path.insert(0, '/reground'); from harness import main; main({job})"
_ADVICE = (
    "install bubblewrap and allow unprivileged user namespaces, or set the option sandbox to docker where a Docker "
    "daemon runs"
)


def find_bubblewrap(*, packages: bool = False) -> Bubblewrap:
    """Isolation by `bwrap`, after a test run.

    packages: whether programs see installed packages, such as numpy, besides the standard library.
    Raises SandboxUnavailable, with the reason and the remedy, if bubblewrap cannot isolate.
    """
    binary = shutil.which("bwrap")
    if binary is None:
        raise SandboxUnavailable(f"there is no bwrap here, so generated programs are not run; {_ADVICE}")
    refusal: str | None = ""
    for as_user in (True, False) if os.geteuid() == 0 else (False,):
        launcher = Bubblewrap(binary, as_user=as_user, packages=packages)
        refusal = launcher.refusal()
        if refusal is None:
            return launcher
    raise SandboxUnavailable(f"bubblewrap cannot isolate a program here: {refusal}; {_ADVICE}")


@functools.cache
def _options(binary: str) -> str:
    """This version's help text, which lists its options."""
    return subprocess.run([binary, "--help"], capture_output=True, text=True, check=False).stdout


def sys_executable() -> str:
    """The real interpreter behind a virtual environment."""
    return os.path.realpath(getattr(sys, "_base_executable", None) or sys.executable)


@functools.cache
def python_paths() -> tuple[str, ...]:
    """The paths that Python needs: system libraries, the standard library, the interpreter."""
    standard = sysconfig.get_path("stdlib", vars={"installed_base": sys.base_prefix, "base": sys.base_prefix})
    system = ["/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib64", "/usr/local/lib", "/etc/ld.so.cache"]
    own = [] if sys.base_prefix in ("/usr", "/usr/local") else [f"{sys.base_prefix}/lib"]
    return tuple(path for path in [*system, *own, standard, sys_executable()] if Path(path).exists())


class Bubblewrap:
    """Builds commands of `bwrap`.

    as_user: a program started by root runs as an unused user. Otherwise it runs in a user namespace, in which root
    would still be exempt from the limit on processes.
    """

    name = "bubblewrap"
    limits_memory = False

    def __init__(self, binary: str, *, as_user: bool, packages: bool) -> None:
        self._binary, self._as_user, self._packages = binary, as_user, packages
        # Import the harness once to compile it, because the sandbox cannot write its byte code.
        for module in ("program", "tests"):
            importlib.import_module(f"reground.sandbox.harness.{module}")

    def refusal(self) -> str | None:
        """Why an isolated Python does not start; None if it does."""
        command = [*self.isolate(Limits(), None, None), sys_executable(), "-sPS", "-c", "print('ready')"]
        try:
            result = subprocess.run(command, capture_output=True, text=True, timeout=20, check=False)
        except (OSError, subprocess.TimeoutExpired) as error:
            return str(error)
        if result.stdout.strip() == "ready":
            return None
        return (result.stderr.strip().splitlines() or ["it gives no reason"])[-1]

    def launch(self, job: Job) -> Launch:
        """The command for a job."""
        limits, seconds = job.limits, math.ceil(job.limits.seconds)
        confinement = {
            "user": job.user if self._as_user else None,
            "AS": (limits.memory_mib + _INTERPRETER_MIB) * 2**20,
            "CPU": seconds if job.role == "program" else seconds + 2,
            "FSIZE": FILE_MIB * 2**20,
            "NPROC": limits.processes + (0 if self._as_user else 2) if self._counts_processes() else None,
            "NOFILE": 256,
            "CORE": 0,
        }
        _require({**confinement, "NOFILE": FEWEST_FILES})
        packages = sysconfig.get_path("purelib") if self._packages or job.role == "tests" else None
        visible = [packages] if packages else []
        data = {"role": job.role, **job.data, "confine": confinement, "harness": "/reground", "packages": visible}
        inherit: list[int] = []
        # The program can read the command line in /proc/1/cmdline, so the host's paths are passed otherwise.
        options: list[str] = []
        if rules := filter_program(platform.machine()):
            inherit.append(_in_memory(rules))
            options = ["--seccomp", str(inherit[-1])]
        # In memory that its reader empties, because the program could read a file later through a link.
        inherit.append(_in_memory(json.dumps(data).encode()))
        boot = _BOOT.format(job=inherit[-1])
        isolate = self.isolate(job.limits, job.shared, packages)
        inherit.append(_in_memory("\0".join([*options, *isolate[1:-1]]).encode()))
        command = [self._binary, "--args", str(inherit[-1]), "--", sys_executable(), "-sPS", "-c", boot]
        return Launch(command, tuple(inherit), environment={})

    def isolate(self, limits: Limits, shared: Path | None, packages: str | None) -> list[str]:
        """`bwrap` and its options, without the command to run."""
        drop = ["--cap-drop", "ALL"]
        if self._as_user:
            namespaces = [*(f"--unshare-{kind}" for kind in ("ipc", "pid", "net", "uts", "cgroup-try")), *drop]
            # Needed to change the user and then drop these capabilities; the program has none of them.
            for capability in ("CAP_SETUID", "CAP_SETGID", "CAP_SETPCAP"):
                namespaces += ["--cap-add", capability]
        else:
            apart = ["--unshare-all", "--unshare-user", *self._if_known("--disable-userns")]
            namespaces = [*apart, *drop, "--uid", "1000"]
        return [
            self._binary,
            *namespaces,
            "--die-with-parent",
            "--new-session",
            *("--hostname", "sandbox"),
            "--clearenv",
            *(part for name, value in _ENVIRONMENT.items() for part in ("--setenv", name, value)),
            *("--proc", "/proc", "--dev", "/dev"),
            *(part for path in SCRATCH for part in self._scratch(path, limits)),
            *(("--bind", str(shared), "/box") if shared else self._scratch("/box", limits)),
            # After the scratch folders: Python or its packages may lie below one of them.
            *self._system(packages),
            *("--ro-bind", str(HARNESS), "/reground/harness"),
            *("--remount-ro", "/dev", "--remount-ro", "/"),
            *("--chdir", "/box"),
            "--",
        ]

    def _system(self, packages: str | None) -> list[str]:
        paths = [*python_paths(), *([packages] if packages else [])]
        links = [path for path in paths if Path(path).is_symlink() and path.count("/") == 1]
        bound = [path for path in paths if path not in links]
        # bubblewrap creates missing parents only for its own user, but the program runs as another one.
        parents = dict.fromkeys(str(p) for path in bound for p in reversed(Path(path).parents) if p != Path("/"))
        scratch = {"/tmp", "/home", "/box"}  # noqa: S108
        mode = ["--perms", "0755"] if self._if_known("--perms") else []
        return [
            *(part for parent in parents if parent not in scratch for part in (*mode, "--dir", parent)),
            *(part for path in links for part in ("--symlink", str(Path(path).readlink()), path)),
            *(part for path in bound for part in ("--ro-bind", path, path)),
        ]

    def _scratch(self, path: str, limits: Limits) -> list[str]:
        size = ["--size", str(min(limits.memory_mib, SCRATCH_MIB) * 2**20)] if self._if_known("--size") else []
        mode = ["--perms", "1777"] if self._if_known("--perms") else []
        return [*mode, *size, "--tmpfs", path]

    def _if_known(self, option: str) -> list[str]:
        return [option] if f"{option} " in _options(self._binary) else []

    def _counts_processes(self) -> bool:
        """Whether the kernel counts a sandbox's processes separately from the user's others (Linux 5.14)."""
        release = platform.release().split(".")
        return self._as_user or (int(release[0]), int(release[1].split("-")[0])) >= (5, 14)


def _require(needed: Mapping[str, int | None]) -> None:
    """Raise SandboxUnavailable if a limit of the host would make a correct program fail."""
    for name, option in _ULIMIT.items():
        most, least = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1], needed[name]
        if least is not None and most != resource.RLIM_INFINITY and most < least:
            raise SandboxUnavailable(
                f"the host limits a process to {most} where a program may need {least} (RLIMIT_{name}); "
                f"raise it (ulimit {option}) or ask for less"
            )


def _in_memory(data: bytes) -> int:
    handle = os.memfd_create("rules")
    os.write(handle, data)
    os.lseek(handle, 0, os.SEEK_SET)
    return handle


_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED: dict[str, tuple[int, int | None]] = {
    # name: its number on x86_64, on aarch64
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "ptrace": (101, 117), "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "keyctl": (250, 219), "add_key": (248, 217),
    "request_key": (249, 218), "io_uring_setup": (425, 425), "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427), "fsopen": (430, 430), "fsmount": (432, 432), "move_mount": (429, 429),
    "open_tree": (428, 428),
    # Calls that capabilities block today, or that only affect the program itself, but reach much kernel code.
    "chroot": (161, 51), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "kexec_load": (246, 104), "kexec_file_load": (320, 294), "init_module": (175, 105), "finit_module": (313, 273),
    "delete_module": (176, 106), "syslog": (103, 116), "quotactl": (179, 60), "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265), "kcmp": (312, 272), "pidfd_getfd": (438, 438), "process_madvise": (440, 440),
    "fsconfig": (431, 431), "fspick": (433, 433), "mount_setattr": (442, 442), "fanotify_init": (300, 262),
    "personality": (135, 92), "lookup_dcookie": (212, 18), "vhangup": (153, 58), "modify_ldt": (154, None),
    "iopl": (172, None), "ioperm": (173, None),
    # Memory that belongs to no process and no file, so it could not be counted.
    "memfd_create": (319, 279), "memfd_secret": (447, 447), "shmget": (29, 194), "semget": (64, 190),
    "msgget": (68, 186), "mq_open": (240, 180),
}  # fmt: skip
_SOCKET = {"x86_64": 41, "aarch64": 198}
_AF_UNIX, _AF_INET = 1, 2
_CLONE = {"x86_64": 56, "aarch64": 220}
_CLONE3 = 435
_NEW_NAMESPACES = 0x7E020080  # CLONE_NEWNS, CGROUP, UTS, IPC, USER, PID, NET, TIME
_ALLOW, _KILL, _EPERM, _ENOSYS = 0x7FFF0000, 0x80000000, 0x00050001, 0x00050026
_LOAD, _EQUAL, _ABOVE, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_X32 = 0x40000000


def filter_program(machine: str) -> bytes:
    """Classic BPF for `bwrap --seccomp`; empty for a machine with unknown call numbers.

    `clone3` returns ENOSYS, because a filter cannot read its flags in memory. The C library then uses `clone`, whose
    flags can be read.
    """
    if machine not in _ARCHITECTURES:
        return b""
    place = list(_ARCHITECTURES).index(machine)
    rules = [
        (_LOAD, 0, 0, 4),
        (_EQUAL, 1, 0, _ARCHITECTURES[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, 0),
        (_ABOVE, 0, 1, _X32 if machine == "x86_64" else 0xFFFFFFFF),
        (_RETURN, 0, 0, _EPERM),
        (_EQUAL, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _ENOSYS),
    ]
    for numbers in _REFUSED.values():
        if (number := numbers[place]) is not None:
            rules += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _EPERM)]
    # Only the two socket families that stay within the namespace: vsock, for example, would reach the host.
    rules += [
        (_EQUAL, 0, 5, _SOCKET[machine]),
        (_LOAD, 0, 0, 16),
        (_EQUAL, 2, 0, _AF_UNIX),
        (_EQUAL, 1, 0, _AF_INET),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 3, _CLONE[machine]),
        (_LOAD, 0, 0, 16),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES & ~0x80),
        (_RETURN, 0, 0, _EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("<HBBI", *rule) for rule in rules)
