"""Blocks system calls that no generated program needs, in addition to namespaces and limits.

Without this, a program could create a user namespace, be root in it, and mount memory that no limit counts.
"""

from __future__ import annotations

import struct

_ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED = {
    # unshare setns mount umount2 pivot_root ptrace process_vm_readv process_vm_writev bpf perf_event_open
    # userfaultfd keyctl add_key request_key io_uring_setup/enter/register fsopen fsmount move_mount open_tree
    "x86_64": (272, 308, 165, 166, 155, 101, 310, 311, 321, 298, 323, 250, 248, 249, 425, 426, 427, 430, 432, 429, 428),
    "aarch64": (97, 268, 40, 39, 41, 117, 270, 271, 280, 241, 282, 219, 217, 218, 425, 426, 427, 430, 432, 429, 428),
}
# Calls that capabilities block today, or that only affect the program itself, but reach much kernel code:
# chroot reboot swapon swapoff acct kexec_load kexec_file_load init_module finit_module delete_module syslog quotactl
# name_to_handle_at open_by_handle_at kcmp pidfd_getfd process_madvise fsconfig fspick mount_setattr fanotify_init
# personality lookup_dcookie vhangup, and on x86_64 modify_ldt iopl ioperm
_NEEDLESS = {
    "x86_64": (161, 169, 167, 168, 163, 246, 320, 175, 313, 176, 103, 179, 303, 304, 312, 438, 440, 431, 433, 442, 300,
               135, 212, 153, 154, 172, 173),
    "aarch64": (51, 142, 224, 225, 89, 104, 294, 105, 273, 106, 116, 60, 264, 265, 272, 438, 440, 431, 433, 442, 262,
                92, 18, 58),
}  # fmt: skip
# Memory that belongs to no process and no file, so it could not be counted:
# memfd_create memfd_secret shmget semget msgget mq_open
_UNCOUNTED = {"x86_64": (319, 447, 29, 64, 68, 240), "aarch64": (279, 447, 194, 190, 186, 180)}
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
    refused = _REFUSED[machine] + _NEEDLESS[machine] + _UNCOUNTED[machine]
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
    for number in refused:
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
