"""The doors out of a sandbox, as code that ends without an error only where it got through. See `escapes.py`.

`HOST` tells what there is to be found outside, `call` makes a system call by name, `need` refuses what is empty.
"""

from __future__ import annotations

_CALLS = {
    # name: its number on x86_64, on aarch64
    "io_uring_setup": (425, 425), "io_uring_enter": (426, 426), "io_uring_register": (427, 427), "ptrace": (101, 117),
    "process_vm_readv": (310, 270), "process_vm_writev": (311, 271), "clone3": (435, 435), "clone": (56, 220),
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "chroot": (161, 51), "keyctl": (250, 219), "add_key": (248, 217), "request_key": (249, 218), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "memfd_create": (319, 279), "memfd_secret": (447, 447),
    "shmget": (29, 194), "semget": (64, 190), "msgget": (68, 186), "kexec_load": (246, 104),
    "kexec_file_load": (320, 294), "reboot": (169, 142), "swapon": (167, 224), "swapoff": (168, 225), "acct": (163, 89),
    "init_module": (175, 105), "finit_module": (313, 273), "delete_module": (176, 106), "syslog": (103, 116),
    "name_to_handle_at": (303, 264), "open_by_handle_at": (304, 265), "kcmp": (312, 272), "pidfd_open": (434, 434),
    "pidfd_getfd": (438, 438), "fsopen": (430, 430), "fsconfig": (431, 431), "fsmount": (432, 432),
    "move_mount": (429, 429), "open_tree": (428, 428), "fspick": (433, 433), "mount_setattr": (442, 442),
    "fanotify_init": (300, 262), "quotactl": (179, 60), "personality": (135, 92), "clock_settime": (227, 112),
    "settimeofday": (164, 170), "adjtimex": (159, 171), "sethostname": (170, 161), "setdomainname": (171, 162),
    "mbind": (237, 235), "set_mempolicy": (238, 237), "migrate_pages": (256, 238), "move_pages": (279, 239),
    "process_madvise": (440, 440), "lookup_dcookie": (212, 18), "vhangup": (153, 58), "seccomp": (317, 277),
}  # fmt: skip
NUMBERS = {
    "x86_64": {name: pair[0] for name, pair in _CALLS.items()} | {"iopl": 172, "ioperm": 173, "modify_ldt": 154},
    "aarch64": {name: pair[1] for name, pair in _CALLS.items()},
}

_NAMESPACES = {
    "mount": 0x20000, "cgroup": 0x2000000, "uts": 0x4000000, "ipc": 0x8000000, "user": 0x10000000, "pid": 0x20000000,
    "net": 0x40000000,
}  # fmt: skip
_FAMILIES = {
    "ipv6": "socket.AF_INET6, socket.SOCK_STREAM", "netlink": "16, socket.SOCK_RAW, 0", "packet": "17, socket.SOCK_RAW, 768",
    "vsock": "40, socket.SOCK_STREAM", "raw": "socket.AF_INET, socket.SOCK_RAW, 1", "alg": "38, 5", "bluetooth": "31, 3, 0",
    "can": "29, 3, 1", "xdp": "44, 3", "kcm": "41, 2", "tipc": "30, 1", "rds": "21, 5", "rxrpc": "33, 2", "x25": "9, 5",
    "ax25": "3, 5", "key": "15, 3, 2", "qipcrtr": "42, 2", "smc": "43, 1", "nfc": "39, 5", "phonet": "35, 2",
}  # fmt: skip


def _network() -> dict[str, str]:
    doors = {f"network: a socket of {name}": f"return socket.socket({how})" for name, how in _FAMILIES.items()}
    doors |= {
        f"network: TCP to {host}": f"return socket.create_connection(({host!r}, {port}), 2)"
        for host, port in (
            ("127.0.0.1", "HOST['port']"), ("0.0.0.0", "HOST['port']"), ("localhost", "HOST['port']"),
            ("::1", "HOST['port6']"), ("::ffff:127.0.0.1", "HOST['port']"), ("10.0.0.1", 80), ("192.0.2.1", 443),
            ("169.254.169.254", 80), ("1.1.1.1", 53), ("2001:db8::1", 80),
        )
    }  # fmt: skip
    return doors | {
        "network: UDP": "return socket.socket(2, 2).sendto(b'x', ('1.1.1.1', 53))",
        "network: UDP to everyone": (
            "s = socket.socket(2, 2)\ns.setsockopt(1, 6, 1)\nreturn s.sendto(b'x', ('255.255.255.255', 9))"
        ),
        "network: a name": "return socket.getaddrinfo('example.com', 80)",
        "network: TCP fast open": "return socket.socket(2, 1).sendto(b'x', 0x20000000, ('127.0.0.1', HOST['port']))",
        "network: an unix socket's path": "return socket.socket(1).connect(HOST['folder'] + '/socket')",
        "network: an abstract socket": "return socket.socket(1).connect('\\0' + HOST['abstract'])",
        "network: an abstract datagram": "return socket.socket(1, 2).sendto(b'x', '\\0' + HOST['abstract'])",
        "network: Docker's socket": "return socket.socket(1).connect('/var/run/docker.sock')",
        "network: the bus": "return socket.socket(1).connect('/run/dbus/system_bus_socket')",
        "network: other links": "return need([n for _, n in socket.if_nameindex() if n != 'lo'])",
        "network: other listeners": (
            "return need([l for f in ('tcp', 'udp', 'tcp6') for l in open('/proc/net/' + f).readlines()[1:]])"
        ),
        "network: a link up": "return fcntl.ioctl(socket.socket(2, 2), 0x8914, struct.pack('16sh14x', b'lo', 0x41))",
    }


def _calls() -> dict[str, str]:
    word = "ctypes.create_string_buffer(256)"
    plain = {
        "io_uring_setup": f"4, {word}", "io_uring_enter": "3, 1, 0, 0, 0, 0", "io_uring_register": "3, 0, 0, 0",
        "keyctl": "0, -3, 1", "add_key": "b'user', b'x', b'y', 1, -3", "request_key": "b'user', b'x', 0, -3",
        "perf_event_open": f"{word}, 0, -1, -1, 0", "userfaultfd": "1", "memfd_create": "b'x', 0", "memfd_secret": "0",
        "shmget": "0, 4096, 0o1600", "semget": "0, 1, 0o1600", "msgget": "0, 0o1600", "kexec_load": "0, 0, 0, 0",
        "kexec_file_load": "-1, -1, 0, 0, 0", "swapon": "b'/box/x', 0", "swapoff": "b'/box/x'",
        "acct": "b'/box/x'", "init_module": "b'x', 1, b''", "finit_module": "0, b'', 0", "delete_module": "b'dummy', 0",
        "name_to_handle_at": "-100, b'/', b'\\x80' + bytes(199), ctypes.create_string_buffer(8), 0",
        "open_by_handle_at": "-100, b'\\x08\\0\\0\\0\\x01\\0\\0\\0\\x02' + bytes(15), 0",
        "kcmp": "1, 1, 0, 0, 0", "pidfd_getfd": "3, 0, 0",
        "fsopen": "b'tmpfs', 0", "fsconfig": "3, 6, 0, 0, 0", "fsmount": "3, 0, 0", "move_mount": "-100, b'/box', -100, b'/home', 0",
        "open_tree": "-100, b'/', 1", "fspick": "-100, b'/', 0", "mount_setattr": f"-100, b'/', 0, {word}, 32",
        "fanotify_init": "0, 0", "quotactl": "0x800001, b'/dev/sda', 0, 0", "personality": "0x0040000",
        "clock_settime": f"0, {word}", "settimeofday": f"{word}, 0", "sethostname": "b'x', 1", "setdomainname": "b'x', 1",
        "migrate_pages": f"1, 1, {word}, {word}", "process_madvise": "3, 0, 0, 0, 0", "lookup_dcookie": f"0, {word}, 9",
        "vhangup": "", "iopl": "3", "ioperm": "0, 1024, 1", "modify_ldt": f"1, {word}, 16",
        "syslog": f"3, {word}, 256", "bpf": f"0, {word}, 72", "ptrace": "16, 1, 0, 0",
        "umount2": "b'/proc', 2", "pivot_root": "b'/box', b'/box'", "chroot": "b'/box'", "setns": "0, 0",
        "process_vm_readv": f"1, {word}, 1, {word}, 1, 0", "process_vm_writev": f"1, {word}, 1, {word}, 1, 0",
    }  # fmt: skip
    doors = {f"call: {name}": f"return call({name!r}, {args})" for name, args in plain.items()}
    doors |= {f"namespace: unshare {n}": f"return call('unshare', {flag})" for n, flag in _NAMESPACES.items()}
    doors |= {
        f"namespace: clone {name}": f"""
            child = call('clone', {flag} | 17, 0, 0, 0, 0)
            if child == 0: os._exit(0)
            return child"""
        for name, flag in _NAMESPACES.items()
    }
    doors |= {
        f"namespace: setns {kind}": f"return call('setns', os.open('/proc/1/ns/{kind}', 0), 0)"
        for kind in ("mnt", "net", "user", "pid", "uts", "ipc", "cgroup")
    }
    doors |= {
        f"mount: {kind}": f"return call('mount', b'x', b'/box', b'{kind}', {flags}, 0)"
        for kind, flags in (("tmpfs", 0), ("proc", 0), ("sysfs", 0), ("overlay", 0), ("bind", 4096), ("devpts", 0))
    }
    return doors | {
        "namespace: clone3 user": """
            arguments = struct.pack('11Q', 0x10000000, 0, 0, 0, 17, 0, 0, 0, 0, 0, 0)
            child = call('clone3', arguments, 88)
            if child == 0: os._exit(0)
            return child""",
        "mount: / writable again": "return call('mount', 0, b'/', 0, 32 | 4096, 0)",
        "call: POSIX messages": (
            "return checked(ctypes.CDLL('librt.so.1', use_errno=True).mq_open(b'/q', 0o102, 0o600, None))"
        ),
        "call: reboot": "return call('reboot', 0xfee1dead, 672274793, 0x89abcdef, 0)",
        "call: ptrace of a child's parent": """
            parent = os.getpid()
            if os.fork() == 0: os._exit(ctypes.c_int(libc.ptrace(16, parent, 0, 0)).value & 1)
            if os.wait()[1] == 0: return 'attached'
            raise Shut""",
        "call: 32-bit numbers": (
            "page = mmap.mmap(-1, 4096, prot=7)\n"
            "page.write(b'\\xb8\\x14\\0\\0\\0\\xcd\\x80\\xc3')\n"  # mov eax, getpid of i386; int 0x80; ret
            "if os.uname().machine != 'x86_64': raise Shut\n"
            "return ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))()"
        ),
        "call: x32 numbers": "if os.uname().machine != 'x86_64': raise Shut\nreturn checked(libc.syscall(ctypes.c_long(0x40000000 | 39)))",
    }


def _files() -> dict[str, str]:
    read = (
        "HOST['folder'] + '/secret'", "'/proc/1/root' + HOST['folder'] + '/secret'", "'/../..' + HOST['folder'] + '/secret'",
        "'/proc/1/cwd/..' + HOST['folder'] + '/secret'", "'/etc/passwd'", "'/etc/shadow'", "'/etc/hostname'", "HOST['home'] + '/.bashrc'",
        "'/etc/resolv.conf'", "'/proc/1/environ'", "'/proc/1/mem'", "'/proc/1/maps'", "'/proc/kcore'", "'/proc/kmsg'",
        "'/proc/1/fd/0'", "'/proc/1/stack'", "'/proc/1/auxv'", "'/dev/mem'", "'/dev/kmsg'", "'/dev/sda'", "'/dev/vda'",
        "'/dev/kvm'", "'/dev/fuse'", "'/dev/loop-control'", "'/dev/net/tun'", "'/dev/port'", "'/dev/nvidia0'",
        "'/dev/vsock'", "'/dev/input/event0'", "'/sys/kernel/notes'", "'/sys/class/net/lo/address'", "'/proc/sysrq-trigger'",
        "'/run/secrets/kubernetes.io/serviceaccount/token'", "'/var/log/syslog'", "'/host/etc/passwd'", "'/job.json'",
        "'/dev/tty'", "'/dev/console'", "'/dev/userfaultfd'",
    )  # fmt: skip
    written = (
        "/usr/bin/x", "/usr/lib/x", "/lib/x", "/etc/x", "/x", "/dev/x", "/reground/x", "/reground/harness/tests.py",
        "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname", "/proc/sys/kernel/modprobe", "/proc/sysrq-trigger",
        "/proc/sys/vm/drop_caches", "/proc/sys/vm/overcommit_memory", "/proc/sys/kernel/panic", "/proc/sys/fs/file-max",
        "/proc/sys/net/ipv4/ip_forward", "/proc/sys/kernel/ns_last_pid", "/proc/1/oom_score_adj", "/proc/1/comm",
        "/proc/self/uid_map", "/proc/self/gid_map", "/proc/self/setgroups", "/sys/fs/cgroup/cgroup.procs",
        "/sys/kernel/uevent_helper", "/sys/power/state", "/proc/irq/default_smp_affinity", "/proc/acpi/wakeup", "/proc/1/mem",
        "/proc/sys/fs/binfmt_misc/register", "/proc/self/attr/current",
    )  # fmt: skip
    doors = {f"read: {path}": f"return need(open({path}, 'rb').read(64))" for path in read}
    doors |= {
        f"write: {path}": f"return os.write(os.open({path!r}, os.O_WRONLY | os.O_CREAT), b'1')" for path in written
    }
    doors |= {
        f"write: mknod {name}": f"""
            os.mknod('/box/node', 0o666 | {kind}, os.makedev({major}, {minor}))
            return open('/box/node', 'rb').read(16)"""
        for name, kind, major, minor in (("mem", 0o20000, 1, 1), ("a disk", 0o60000, 8, 0), ("kmsg", 0o20000, 1, 11))
    }
    return doors | _links() | {
        "write: the program's own library": "return open(os.__file__, 'r+b')",
        "write: another owner": "return os.chmod(sys.executable, 0o4777)",
        "write: a setuid file of root": "open('/box/s', 'w')\nos.chown('/box/s', 0, 0)\nreturn os.chmod('/box/s', 0o4755)",
        "read: host processes": "return need([p for p in os.listdir('/proc') if p.isdigit() and int(p) > 1000])",
        "read: a host's command line": "return open(f\"/proc/{HOST['pid']}/cmdline\").read()",
        "read: a word of the host in /proc/1": "return need([c for c in open('/proc/1/cmdline').read().split('\\0') if c.startswith('/') and not c.endswith(('bwrap', 'python' + sys.version[:4]))])",
        "read: names of the environment": "return need([n for n in os.environ if 'KEY' in n or 'TOKEN' in n or 'REGROUND' in n])",
        "read: /proc/1/fd": "return os.listdir('/proc/1/fd')",
        "read: inherited files": """
            odd = []
            for number in os.listdir('/proc/self/fd'):
                try: place = os.readlink('/proc/self/fd/' + number)
                except OSError: continue
                if place.startswith('/') and not place.startswith(('/proc', '/dev/null', '/box')): odd.append(place)
            return need(odd)""",
        "read: inherited directories": """
            import stat
            def odd(n):
                place = f'/proc/self/fd/{n}'
                return stat.S_ISDIR(os.stat(place).st_mode) and not os.readlink(place).startswith(('/proc', '/box'))
            return need([n for n in os.listdir('/proc/self/fd') if os.path.exists(f'/proc/self/fd/{n}') and odd(n)])""",
        "terminal: TIOCSTI": "return [fcntl.ioctl(n, 0x5412, b'x') for n in (0, 1, 2)]",
        "terminal: TIOCSTI of a pseudo-terminal": "a, b = os.openpty()\nreturn fcntl.ioctl(b, 0x5412, b'x')",
        "terminal: TIOCLINUX": "return fcntl.ioctl(0, 0x541C, b'\\x02')",
        "terminal: its own": "return os.ttyname(0)",
    }  # fmt: skip


def _links() -> dict[str, str]:
    return {
        f"link: {how} to {name}": f"os.{how}({place}, '/box/link')\nreturn need(open('/box/link').read(16))"
        for how in ("symlink", "link")
        for name, place in (
            ("the host's file", "HOST['folder'] + '/secret'"), ("passwd", "'/etc/passwd'"), ("root", "'/proc/1/root/etc/passwd'"),
            ("above", "'../../../../../../etc/passwd'"), ("a kernel file", "'/proc/1/environ'"),
        )
    }  # fmt: skip


def _power() -> dict[str, str]:
    # Process 1 of the sandbox ignores its children, and what is the program's own it may stop.
    signals = {f"signal: {n} to the host's process": f"return os.kill(HOST['pid'], {n})" for n in (0, 9, 15, 19)}
    capabilities = {
        f"power: capability {name}": f"return need([l for l in open('/proc/self/status') if l.startswith('{name}:') and int(l.split()[1], 16)])"
        for name in ("CapInh", "CapPrm", "CapEff", "CapAmb")
    }
    return signals | capabilities | {
        "power: setuid 0": "return os.setuid(0)",
        "power: setgid 0": "return os.setgid(0)",
        "power: setresuid": "return os.setresuid(0, 0, 0)",
        "power: setgroups": "return os.setgroups([0])",
        "power: seteuid of nobody": "return os.setresuid(65534, 65534, 65534)",
        "power: root already": "return need(os.geteuid() == 0 or 0 in os.getresuid())",
        "power: all groups": "return need([g for g in os.getgroups() if g == 0])",
        "power: ambient": "return checked(libc.prctl(47, 2, 0, 0, 0))",
        "power: no-new-privileges off": "return checked(libc.prctl(38, 0, 0, 0, 0))",
        "power: new privileges": "return need(libc.prctl(39, 0, 0, 0, 0) == 0)",
        "power: without a filter": "return need('Seccomp:\\t0' in open('/proc/self/status').read())",
        "power: bounding": "return checked(libc.prctl(24, 0, 0, 0, 0))",
        "power: more memory": "import resource\nreturn resource.setrlimit(resource.RLIMIT_AS, (-1, -1))",
        "power: more processes": "import resource\nreturn resource.setrlimit(resource.RLIMIT_NPROC, (-1, -1))",
        "power: more files": "import resource\nreturn resource.setrlimit(resource.RLIMIT_NOFILE, (9999, 9999))",
        "power: larger files": "import resource\nreturn resource.setrlimit(resource.RLIMIT_FSIZE, (-1, -1))",
        "power: cores": "import resource\nreturn resource.setrlimit(resource.RLIMIT_CORE, (-1, -1))",
        "power: more time": "import resource\nreturn resource.setrlimit(resource.RLIMIT_CPU, (-1, -1))",
        "power: limits of others": "import resource\nreturn resource.prlimit(1, resource.RLIMIT_AS, (1 << 30, 1 << 30))",
        "power: limits of the host's": "import resource\nreturn resource.prlimit(HOST['pid'], resource.RLIMIT_CPU)",
        "power: before others": "return os.setpriority(os.PRIO_PROCESS, 0, -10)",
        "power: real time": "return os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))",
        "power: others' priority": "return os.setpriority(os.PRIO_PROCESS, HOST['pid'], 5)",
        "power: locked memory": "return need(libc.mlockall(3) == 0 and mmap.mmap(-1, 64 << 20))",
        "power: a core for all": "return os.sched_setaffinity(HOST['pid'], {0})",
        "power: sudo": "return subprocess.run(['/usr/bin/sudo', '-n', 'id'], check=True)",
        "power: su": "return subprocess.run(['/bin/su', '-c', 'id'], check=True)",
        "power: a shell": "return subprocess.run(['/bin/sh', '-c', 'id'], check=True)",
        "power: bwrap again": "return subprocess.run(['/usr/bin/bwrap', '--ro-bind', '/', '/', 'id'], check=True)",
        "power: a pidfd of the host's": "return os.pidfd_open(HOST['pid'])",
    }  # fmt: skip


DOORS = {**_network(), **_calls(), **_files(), **_power()}
"""All doors by name; what stands before the colon is the kind that they are counted in."""

FIRST = (
    *("call: modify_ldt", "call: personality", "call: name_to_handle_at", "power: capability CapInh"),
    *("call: memfd_create", "call: shmget", "call: msgget", "call: POSIX messages"),
    *("network: a socket of vsock", "network: a socket of netlink", "network: a socket of packet"),
    "read: a word of the host in /proc/1",
)
"""Those that the short form always tries: they stood open once, or lead to memory that nothing counts, or to the host."""
