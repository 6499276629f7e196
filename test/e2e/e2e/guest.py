# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""The node: a QEMU guest with 8 CPUs, 2 sockets, 2 NUMA nodes and SMT."""

import http.client
import shutil
import subprocess

from e2e import images, peers, rootfs
from e2e.base import HERE, Problem, Processes, State, command, free_port, log_dir, run_dir, step, wait_for

NAME = "guest"


def _place():
    return run_dir() / "guest"


def start(driver_archive=None):
    """Makes the run's disks and boots; returns once a shell can be had."""
    kernel, pictures = rootfs.build(), images.build()
    place = _place()
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir(parents=True)
    State().update(guest_ports={name: free_port() for name in ("ssh", "kubelet", "health")})
    with step("guest: disks", log_dir() / "guest-disks.log"):
        command(["cp", "--sparse=always", kernel / "root.img", place / "root.img"])
        _share(place, pictures, driver_archive)
    boot()


def _share(place, pictures, driver_archive):
    """The read-only disk: programs, settings, keys and images."""
    log, facts, tree = log_dir() / "guest-disks.log", State().read(), place / "share"
    pki = run_dir() / "control-plane" / "pki"
    for name in ("bin", "etc/cni", "images"):
        (tree / name).mkdir(parents=True)
    peers.gather(peers.NODE, tree / "bin")
    shutil.copytree(HERE / "guest", tree / "guest")
    shutil.copy2(pictures / "observe", tree / "guest")
    for archive in sorted(pictures.glob("*.tar")) + ([driver_archive] if driver_archive else []):
        shutil.copy(archive, tree / "images")
    etc, node = tree / "etc", facts["node"]
    shutil.copy(HERE / "guest/containerd.toml", etc / "containerd.toml")
    shutil.copy(HERE / "guest/bridge.conflist", etc / "cni/10-bridge.conflist")
    settings = (HERE / "guest/kubelet.yaml").read_text()
    (etc / "kubelet.yaml").write_text(settings.replace("@KUBELET_PORT@", str(facts["guest_ports"]["kubelet"])))
    shutil.copy(pki / f"{node}.kubeconfig", etc / "kubelet.kubeconfig")
    shutil.copy(pki / "ca.crt", etc / "ca.crt")
    (etc / "resolv.conf").write_text("")
    (etc / "run.env").write_text(f"NODE={node}\nAPI_PORT={facts['ports']['api']}\n")
    command(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "e2e", "-f", place / "client_key"], log)
    shutil.copy(place / "client_key.pub", etc / "authorized_keys")
    command(["mke2fs", "-q", "-F", "-t", "ext4", "-O", "^has_journal", "-d", tree, place / "share.img", "768M"], log)
    shutil.rmtree(tree)


def boot():
    """Boots (or boots again from the same disk) and opens the way in."""
    place, kernel, ports = _place(), rootfs.folder(), State().read()["guest_ports"]
    forwards = "".join(f",hostfwd=tcp:127.0.0.1:{host}-:{inside}" for host, inside in (
        (ports["ssh"], 22), (ports["kubelet"], ports["kubelet"]), (ports["health"], 8080)))
    argv = [
        "qemu-system-x86_64", "-name", "dracpu-e2e", "-M", "q35", "-accel", "tcg,thread=multi",
        "-cpu", "Skylake-Server", "-smp", "8,sockets=2,cores=2,threads=2", "-m", "4096",
        "-object", "memory-backend-ram,id=m0,size=2048M", "-object", "memory-backend-ram,id=m1,size=2048M",
        "-numa", "node,nodeid=0,cpus=0-3,memdev=m0", "-numa", "node,nodeid=1,cpus=4-7,memdev=m1",
        "-kernel", kernel / "vmlinuz", "-initrd", kernel / "initrd.img",
        "-append", "console=ttyS0 quiet mitigations=off hugepages=128 panic=1",
        "-drive", f"file={place / 'root.img'},if=virtio,format=raw,cache=unsafe",
        "-drive", f"file={place / 'share.img'},if=virtio,format=raw,readonly=on",
        "-netdev", f"user,id=n0,ipv6=off{forwards}", "-device", "virtio-net-pci,netdev=n0,romfile=",
        "-device", "virtio-rng-pci", "-nodefaults", "-display", "none", "-serial", "stdio", "-no-reboot",
    ]
    console = log_dir() / "guest-console.log"
    with step("guest: boot", console):
        Processes().start(NAME, argv, console)
        wait_for("a shell in the guest", 120, _open_shell, interval=0.5)


def _open_shell():
    if not Processes().alive(NAME):
        raise Problem(f"the guest has ended; see {log_dir() / 'guest-console.log'}")
    place, port = _place(), State().read()["guest_ports"]["ssh"]
    # One connection is kept open: a new key exchange costs the guest a second.
    started = Processes()
    if not started.alive("guest-shell"):
        (place / "shell").unlink(missing_ok=True)
        started.start("guest-shell", [
            "ssh", "-N", "-M", "-S", place / "shell", "-F", "/dev/null", "-i", place / "client_key",
            "-o", "BatchMode=yes", "-o", f"UserKnownHostsFile={place / 'known_hosts'}",
            "-o", "StrictHostKeyChecking=accept-new", "-o", "ServerAliveInterval=15", "-o", "ConnectTimeout=20",
            "-p", port, "root@127.0.0.1"], log_dir() / "guest-shell.log")
    return run("true", check=False, timeout=20)[0] == 0


def run(script, check=True, timeout=120, stdin=None):
    """Runs a shell script in the guest; returns exit status and output."""
    place = _place()
    argv = ["ssh", "-S", str(place / "shell"), "-F", "/dev/null", "-o", "ControlMaster=no", "-o", "BatchMode=yes",
            "-o", "ProxyCommand=false", "root@127.0.0.1",
            "export PATH=/share/guest:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin; " + script]
    done = subprocess.run(argv, input=stdin, stdin=None if stdin is not None else subprocess.DEVNULL,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, timeout=timeout)
    text = done.stdout.decode(errors="replace")
    if check and done.returncode != 0:
        raise Problem(f"in the guest, '{script[:120]}' ended with {done.returncode}: {text[-400:]}")
    return done.returncode, text


def read(script, timeout=120):
    return run(script, timeout=timeout)[1]


def put(source, target):
    """Copies one file into the guest."""
    with open(source, "rb") as data:
        run(f"cat >'{target}'", stdin=data.read(), timeout=300)


def health(path, timeout=5):
    """The driver's HTTP status code on its health port, or 0."""
    link = http.client.HTTPConnection("127.0.0.1", State().read()["guest_ports"]["health"], timeout=timeout)
    try:
        link.request("GET", path)
        return link.getresponse().status
    except OSError:
        return 0
    except http.client.HTTPException:
        return 0
    finally:
        link.close()


def fetch_logs():
    """Brings the node's logs to the log folder; best effort."""
    if not Processes().alive(NAME) or NAME in Processes().suspended():
        return
    try:
        _open_shell()
    except (OSError, subprocess.SubprocessError, Problem):
        return
    for name, script in {
        "containerd.log": "cat /var/log/containerd.log",
        "kubelet.log": "cat /var/log/kubelet.log",
        "guest-dmesg.log": "dmesg",
        "driver.log": "for f in /var/log/pods/kube-system_dracpu-*/*/*.log; do echo \"== $f\"; cat \"$f\"; done",
        "guest-cpusets.log": "cpusets",
    }.items():
        try:
            status, text = run(script, check=False, timeout=60)
        except (OSError, subprocess.SubprocessError):
            continue
        # 255 is the way in that failed: an older copy of the log is worth more.
        if status != 255:
            (log_dir() / name).write_text(text)


def power_off(cut=False):
    """Ends the guest: at once (`cut`), or after its disk is synchronized."""
    if not cut and Processes().alive(NAME):
        run("sync", check=False, timeout=20)
    Processes().stop("guest-shell")
    Processes().stop(NAME)
