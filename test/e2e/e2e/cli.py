# SPDX-License-Identifier: Apache-2.0
# Copyright The dracpu authors
"""Command line, bring-up and the run over the cases."""

import argparse
import contextlib
import fcntl
import os
import pathlib
import re
import shutil
import signal
import sys
import time
import traceback

from e2e import control_plane, guest, peers
from e2e.base import (CONTROL_PLANE_PACKAGES, HERE, REPO, BedProblem, Problem, Processes, cache_dir, eprint, log_dir,
                      require_go, require_packages, require_root, run_dir, say, step)
from e2e.cluster import Cluster
from e2e.registry import CASES, Skip

BED_DOWN = 75  # exit status: not a verdict on the driver


def _arguments(argv):
    parser = argparse.ArgumentParser(prog="test/e2e/run", description="A real cluster on one machine, and its cases.")
    parser.add_argument("verb", nargs="?", default="test", choices=("test", "up", "down", "control-plane", "helm"),
                        help="test (default): bring up, run the cases, take down; helm: build Helm, print its path")
    parser.add_argument("--tier", choices=("smoke", "full"), default="full")
    parser.add_argument("--only", metavar="REGEX", help="run the cases whose name matches")
    parser.add_argument("--keep", action="store_true", help="leave the bed up at the end")
    parser.add_argument("--reuse", action="store_true", help="use the bed that 'up' or --keep left")
    parser.add_argument("--list", action="store_true", help="name the cases and end")
    parser.add_argument("--driver", default=str(REPO / "build/release/bin/dracpu"), help="the binary under test")
    parser.add_argument("--liveness-path", default="/livez", help="probe path, for older drivers")
    parser.add_argument("--readiness-path", default="/readyz", help="probe path, for older drivers")
    return parser.parse_args(argv)


def main(argv):
    options = _arguments(argv)
    _load_cases()
    chosen = _choose(options)
    if options.list:
        for case in chosen:
            say(f"{case.name:32} {case.tier:6} {case.about}")
        return 0
    try:
        if options.only and not chosen:
            raise Problem(f"No case matches {options.only!r}.")
        if options.verb == "helm":
            return _helm()
        require_root()
        with _only_one():
            signal.signal(signal.SIGTERM, _interrupt)
            if options.verb == "down":
                down()
                return 0
            require_go()
            if options.verb == "control-plane":
                return _control_plane()
            if options.verb == "up":
                return _up(options)
            return _test(options, chosen)
    except Problem as problem:
        eprint(f"test/e2e/run: {problem}")
        return 1
    except BedProblem as problem:
        eprint(f"test/e2e/run: the bed did not come up, the driver was not judged: {problem}")
        return BED_DOWN
    except KeyboardInterrupt:
        left = [row["name"] for row in Processes().running()]
        eprint(f"test/e2e/run: interrupted; still running: {', '.join(left) or 'nothing'}.")
        return 130


def _helm():
    require_go()
    log_dir().mkdir(parents=True, exist_ok=True)
    with contextlib.redirect_stdout(sys.stderr):
        peers.build(["helm"])
    say(peers.path("helm"))
    return 0


def _interrupt(_number, _frame):
    raise KeyboardInterrupt


def _load_cases():
    for file in sorted((HERE / "e2e").glob("cases_*.py")):
        __import__(f"e2e.{file.stem}")


def _choose(options):
    rows = [c for c in CASES if options.tier == "full" or c.tier == "smoke"]
    return [c for c in rows if not options.only or re.search(options.only, c.name)]


@contextlib.contextmanager
def _only_one():
    """One bed per folder: a second caller is told so."""
    run_dir().mkdir(parents=True, exist_ok=True)
    cache_dir().mkdir(parents=True, exist_ok=True)
    with open(run_dir() / "lock", "w", encoding="utf-8") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise Problem(f"Another run uses {run_dir()}; set DRACPU_E2E_DIR to another folder.") from None
        yield


def _fresh():
    """An empty folder for this run; whatever ran in it before is stopped."""
    Processes().stop_all()
    for entry in run_dir().iterdir():
        if entry.name == "lock":
            continue
        shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    log_dir().mkdir(parents=True)


def down():
    with step("stop everything"):
        if Processes().alive(guest.NAME):
            guest.fetch_logs()
        Processes().stop_all()
        for heavy in ("guest/root.img", "guest/share.img"):
            (run_dir() / heavy).unlink(missing_ok=True)


def _control_plane():
    _fresh()
    try:
        require_packages(CONTROL_PLANE_PACKAGES)
        peers.build(peers.CONTROL_PLANE)
        control_plane.start()
    except BaseException:
        down()
        raise
    say(str(control_plane.admin_kubeconfig()))
    return 0


def _bring_up(options):
    """Builds what is missing and starts the bed; returns the Cluster."""
    cluster = Cluster(options.driver, (options.liveness_path, options.readiness_path))
    if options.reuse and Processes().alive(guest.NAME):
        cluster.attach()
        return cluster
    _fresh()
    if not pathlib.Path(options.driver).is_file():
        raise Problem(f"There is no driver binary at {options.driver}; build it first or name one with --driver.")
    begun = time.monotonic()
    try:
        try:
            require_packages()
            peers.build(peers.CONTROL_PLANE + peers.NODE)
        except Problem as problem:
            raise BedProblem(str(problem)) from problem
        cluster.up()
    except BaseException as error:
        with contextlib.suppress(Exception):
            guest.fetch_logs()
        if os.environ.get("KEEP") == "1" and not isinstance(error, KeyboardInterrupt):
            say(f"the bed is left up (KEEP=1); logs: {log_dir()}")
        else:
            down()
            say(f"logs: {log_dir()}")
        raise
    say(f"the bed is up after {time.monotonic() - begun:.1f} s")
    return cluster


def _up(options):
    _bring_up(options)
    say(f"kubeconfig: {control_plane.admin_kubeconfig()}")
    say(f"kubectl:    {peers.path('kubectl')}")
    say(f"guest:      ssh -S {run_dir() / 'guest/shell'} root@127.0.0.1")
    say(f"logs:       {log_dir()}")
    return 0


def _test(options, chosen):
    cluster = _bring_up(options)
    results = {"PASS": 0, "FAIL": 0, "SKIP": 0}
    try:
        for case in chosen:
            results[_one(case, cluster)] += 1
    finally:
        keep = options.keep or options.reuse or (os.environ.get("KEEP") == "1" and results["FAIL"])
        with contextlib.suppress(Exception):
            guest.fetch_logs()
        if keep:
            say(f"the bed is left up; test/e2e/run down stops it; logs: {log_dir()}")
        else:
            down()
    skipped = f", {results['SKIP']} skipped" if results["SKIP"] else ""
    say(f"{results['PASS']} passed, {results['FAIL']} failed{skipped}")
    return 1 if results["FAIL"] or not results["PASS"] else 0


def _one(case, cluster):
    begun, result, told = time.monotonic(), "PASS", ""
    say(f"-- {case.name}: {case.about}")
    try:
        case.run(cluster)
    except Skip as reason:
        result, told = "SKIP", str(reason)
    except Exception as error:  # pylint: disable=broad-except  (a case may fail in any way)
        result, told = "FAIL", str(error)
        if Processes().suspended():
            told += f"; suspended by somebody meanwhile: {', '.join(Processes().suspended())}"
        (log_dir() / f"case-{case.name}.txt").write_text(traceback.format_exc() + _picture(cluster))
    say(f"{result} {case.name} ({time.monotonic() - begun:.1f} s)")
    if told:
        say(f"     {told}")
    if result == "FAIL":
        with contextlib.suppress(Exception):
            guest.fetch_logs()
        say(f"     logs: {log_dir()}")
        if os.environ.get("KEEP") == "1":
            return result
    try:
        cluster.settle()
    except Exception as error:  # pylint: disable=broad-except
        say(f"     cleaning up after {case.name} failed: {error}")
        return "FAIL"
    return result


def _picture(cluster):
    """What the cluster looked like at the failure."""
    rows = []
    for words in (("get", "pods", "-A", "-o", "wide"), ("get", "resourceclaims", "-A"),
                  ("get", "resourceslices", "-o", "yaml"), ("get", "events", "-A", "--sort-by=.lastTimestamp")):
        with contextlib.suppress(Exception):
            rows.append(f"\n$ kubectl {' '.join(words)}\n" + cluster.kubectl(*words, check=False))
    with contextlib.suppress(Exception):
        rows.append("\n$ cpusets\n" + guest.read("cpusets"))
    return "".join(rows)
