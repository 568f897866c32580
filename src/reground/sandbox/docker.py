"""Isolation by Docker, for hosts without bubblewrap."""

from __future__ import annotations

import json
import math
import os
import secrets
import shutil
import subprocess
import sys
from pathlib import Path

from pydantic import JsonValue

from reground.core.errors import SandboxUnavailable
from reground.sandbox.engine import Job, Launch

HARNESS = Path(__file__).parent / "harness"
_BOOT = "import sys; sys.path.insert(0, '/reground'); from harness import main; main('/job.json')"
_ADVICE = "start it, or set the option sandbox to bubblewrap"


def find_docker(binary: str = "docker") -> Docker:
    """Containers of `python:X.Y-slim`, for the running Python's version. The image is never pulled.

    Raises SandboxUnavailable without docker, its daemon or the image.
    """
    image = f"python:{sys.version_info[0]}.{sys.version_info[1]}-slim"
    if shutil.which(binary) is None:
        raise SandboxUnavailable(f"there is no {binary} here, so generated programs are not run; {_ADVICE}")
    for arguments, missing in (
        (["version"], "the Docker daemon does not answer"),
        (["image", "inspect", image], f"the image {image} is not here: docker pull {image}"),
    ):
        try:
            result = subprocess.run([binary, *arguments], capture_output=True, text=True, timeout=20, check=False)
        except subprocess.TimeoutExpired:
            raise SandboxUnavailable(f"the Docker daemon does not answer; {_ADVICE}") from None
        if result.returncode != 0:
            raise SandboxUnavailable(f"{missing}; {_ADVICE}")
    return Docker(binary, image)


class Docker:
    """Builds `docker run` commands, for containers without network, capabilities or a writable system."""

    name = "docker"
    limits_memory = True

    def __init__(self, binary: str, image: str) -> None:
        self._binary, self._image = binary, image

    def launch(self, job: Job) -> Launch:
        """The command for a job, and the one that always removes its container. Docker limits processes and memory."""
        # The tests' process is to end by the clock, for without its report nobody knows that it was the time.
        seconds = math.ceil(job.limits.seconds) + (2 if job.role == "tests" else 0)
        limits: dict[str, JsonValue] = dict.fromkeys(("user", "AS", "NPROC"))
        limits |= {"CPU": seconds, "FSIZE": 64 * 2**20, "NOFILE": 256, "CORE": 0}
        data = {"role": job.role, **job.data, "confine": limits, "harness": "/reground", "packages": []}
        file = job.folder / f"{job.role}.json"
        file.write_text(json.dumps(data), encoding="utf-8")
        file.chmod(0o644)
        name = f"reground-{secrets.token_hex(8)}"
        memory = f"{job.limits.memory_mib + 32}m"
        mounts = [f"{HARNESS}:/reground/harness:ro", f"{file}:/job.json:ro"]
        if job.shared is not None:
            mounts.append(f"{job.shared}:/box:rw")
        scratch = ["/tmp", "/home", *([] if job.shared else ["/box"])]  # noqa: S108
        command = [
            *(self._binary, "run", "--rm", "--interactive", "--pull", "never", "--name", name),
            *("--network", "none", "--read-only", "--cap-drop", "ALL", "--security-opt", "no-new-privileges"),
            *("--user", f"{os.getuid() or 65534}:{os.getgid() or 65534}"),
            *("--pids-limit", str(job.limits.processes + 2), "--memory", memory, "--memory-swap", memory),
            *(part for path in scratch for part in ("--tmpfs", f"{path}:rw,size=64m,mode=1777")),
            *(part for mount in mounts for part in ("--volume", mount)),
            *("--workdir", "/box", "--env", "HOME=/home", "--env", "PYTHONHASHSEED=0", "--env", "PYTHONUTF8=1"),
            *("--env", "PYTHONDONTWRITEBYTECODE=1", "--entrypoint", "python", self._image),
            *("-sP", "-c", _BOOT),
        ]
        return Launch(command, tidy=(self._binary, "rm", "--force", name))
