# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Paths, progress lines, commands, and the processes that were started."""

import contextlib
import hashlib
import json
import os
import pathlib
import shlex
import signal
import socket
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent.parent  # test/e2e
REPO = HERE.parent.parent


class BedProblem(Exception):
    """The bed did not come up; nothing was said about the driver. Exit status 75."""


class Problem(Exception):
    """Something a person has to know, in one sentence."""


def cache_dir():
    explicit = os.environ.get("DRACPU_CACHE")
    if explicit:
        return pathlib.Path(explicit)
    home = os.environ.get("HOME") or "/tmp"
    return pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.join(home, ".cache")) / "dracpu"


def run_dir():
    explicit = os.environ.get("DRACPU_E2E_DIR")
    return pathlib.Path(explicit) if explicit else cache_dir() / "run"


def log_dir():
    return run_dir() / "logs"


def digest(*parts):
    """A short key over texts and files; folders count file by file."""
    total = hashlib.sha256()
    for part in parts:
        if isinstance(part, pathlib.Path):
            files = sorted(p for p in part.rglob("*") if p.is_file()) if part.is_dir() else [part]
            for file in files:
                total.update(file.name.encode() + b"\0" + file.read_bytes() + b"\0")
        else:
            total.update(str(part).encode() + b"\0")
    return total.hexdigest()[:12]


def say(text):
    print(text, flush=True)


@contextlib.contextmanager
def step(name, log=None):
    """Shows one step with its duration and the log it writes to."""
    begun = time.monotonic()
    where = f"  (log: {log})" if log else ""
    say(f"  .. {name}{where}")
    try:
        yield
    except BaseException:
        say(f"  !! {name}: failed after {time.monotonic() - begun:.1f} s{where}")
        raise
    say(f"  ok {name}: {time.monotonic() - begun:.1f} s")


def command(argv, log=None, stdin=None, env=None, cwd=None, timeout=None, check=True):
    """Runs a command to its end and returns its output; keeps it in `log` too."""
    argv = [str(a) for a in argv]
    done = subprocess.run(argv, input=stdin, env=env, cwd=cwd, timeout=timeout, text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          stdin=None if stdin is not None else subprocess.DEVNULL)
    if log:
        with open(log, "a", encoding="utf-8") as out:
            out.write(f"$ {shlex.join(argv)}\n{done.stdout}")
    if check and done.returncode != 0:
        tail = "\n".join(done.stdout.splitlines()[-8:])
        raise Problem(f"'{shlex.join(argv)[:200]}' ended with {done.returncode}: {tail}")
    return done.stdout


def free_port():
    """A loopback port that was free a moment ago."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_for(what, seconds, probe, interval=0.25):
    """Calls `probe` until it returns something true; says what was last seen."""
    end = time.monotonic() + seconds
    seen = None
    while True:
        try:
            value = probe()
            if value:
                return value
            seen = value
        except (OSError, subprocess.SubprocessError, Problem, AssertionError, KeyError, ValueError) as error:
            seen = error
        if time.monotonic() > end:
            raise Problem(f"waited {seconds} s for {what}; last seen: {seen!r}")
        time.sleep(interval)


class Processes:
    """What was started, kept on disk so that a later `down` finds it."""

    def __init__(self):
        self.file = run_dir() / "processes.json"

    def _load(self):
        try:
            return json.loads(self.file.read_text())
        except (OSError, ValueError):
            return []

    def _save(self, rows):
        self.file.write_text(json.dumps(rows, indent=1))

    @staticmethod
    def _identity(pid):
        """Start time and command line: together they tell a reused pid."""
        try:
            stat = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
            line = pathlib.Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
        except (OSError, IndexError):
            return None, ""
        return (None, "") if stat[0] == "Z" else (stat[19], line)

    def suspended(self):
        """Names of ours that somebody has stopped with a signal; they will not answer."""
        rows = []
        for row in self.running():
            with contextlib.suppress(OSError, IndexError):
                state = pathlib.Path(f"/proc/{row['pid']}/stat").read_text().rsplit(")", 1)[1].split()[0]
                if state == "T":
                    rows.append(row["name"])
        return rows

    def start(self, name, argv, log, env=None, proof=None):
        """Starts a process of its own session; `proof` is a part of its command line."""
        argv = [str(a) for a in argv]
        with open(log, "ab") as out:
            child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=out, stderr=out,
                                     env=env, start_new_session=True)
        started, _ = self._identity(child.pid)
        rows = [r for r in self._load() if r["name"] != name]
        rows.append({"name": name, "pid": child.pid, "started": started,
                     "proof": proof or os.path.basename(argv[0]), "log": str(log)})
        self._save(rows)
        return child

    def alive(self, name):
        for row in self._load():
            if row["name"] == name:
                return self._is_ours(row)
        return False

    def running(self):
        return [row for row in self._load() if self._is_ours(row)]

    def _is_ours(self, row):
        started, line = self._identity(row["pid"])
        return started is not None and started == row["started"] and row["proof"] in line

    def stop(self, name, sig=signal.SIGTERM, grace=8.0):
        rows = self._load()
        for row in [r for r in rows if r["name"] == name]:
            for attempt in (sig, signal.SIGKILL):
                if not self._is_ours(row):
                    break
                with contextlib.suppress(ProcessLookupError):
                    os.kill(row["pid"], attempt)
                end = time.monotonic() + grace
                while self._is_ours(row) and time.monotonic() < end:
                    self._reap(row["pid"])
                    time.sleep(0.05)
            self._reap(row["pid"])
        self._save([r for r in rows if r["name"] != name])

    @staticmethod
    def _reap(pid):
        with contextlib.suppress(ChildProcessError):
            os.waitpid(pid, os.WNOHANG)

    def stop_all(self):
        for row in reversed(self._load()):
            self.stop(row["name"])


class State:
    """Small facts about the bed (ports, names), kept between calls."""

    def __init__(self):
        self.file = run_dir() / "state.json"

    def read(self):
        try:
            return json.loads(self.file.read_text())
        except (OSError, ValueError):
            return {}

    def update(self, **facts):
        rows = {**self.read(), **facts}
        self.file.write_text(json.dumps(rows, indent=1))
        return rows


def require_root():
    if os.geteuid() != 0:
        raise Problem("The end-to-end bed must run as root, because it builds a guest disk and serves it.")


def require_go():
    try:
        text = subprocess.run(["go", "env", "GOVERSION"], capture_output=True, text=True, check=True,
                              env={**os.environ, "GOTOOLCHAIN": "local"}).stdout.strip()
        numbers = text.removeprefix("go").split("-")[0].split(".")
        found = (int(numbers[0]), int(numbers[1]))
    except (OSError, subprocess.CalledProcessError, ValueError, IndexError):
        raise Problem("Go 1.26 or newer is needed to build the test cluster, and no `go` was found.") from None
    if found < (1, 26):
        raise Problem(f"Go 1.26 or newer is needed to build the test cluster, and this is {text}.")


PACKAGES = {  # a file that shows the package is there -> the package
    "/usr/lib/python3/dist-packages/yaml/__init__.py": "python3-yaml",
    "/usr/bin/qemu-system-x86_64": "qemu-system-x86",
    "/usr/sbin/debootstrap": "debootstrap",
    "/bin/busybox": "busybox-static",
    "/sbin/mke2fs": "e2fsprogs",
    "/usr/bin/cpio": "cpio",
    "/usr/bin/buildah": "buildah",
    "/usr/bin/ssh": "openssh-client",
    "/usr/bin/openssl": "openssl",
    "/usr/bin/gcc": "gcc",
    "/usr/include/stdio.h": "libc6-dev",
    "/sbin/depmod": "kmod",
    "/usr/bin/unshare": "util-linux",
}
CONTROL_PLANE_PACKAGES = ("openssl", "util-linux")


def require_packages(only=None):
    """Installs the Debian packages that are missing, and no others."""
    missing = sorted({name for file, name in PACKAGES.items()
                      if not os.path.exists(file) and (only is None or name in only)})
    if not missing:
        return
    log = log_dir() / "apt.log"
    env = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    with step(f"install Debian packages: {' '.join(missing)}", log):
        command(["apt-get", "update", "-qq"], log, env=env)
        command(["apt-get", "install", "-y", "--no-install-recommends", *missing], log, env=env)


def eprint(text):
    print(text, file=sys.stderr, flush=True)
