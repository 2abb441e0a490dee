#!/usr/bin/env python3
"""Runs all tests of a program in several processes at once: side_by_side.py JOBS PROGRAM

Each process takes the next few tests, in the program's order. What a process prints is shown where it fails. Ends as the
program does, with "N passed, N failed, N skipped" in one line and a status that is not 0 where a test failed, a process
died or a test did not run.
"""
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time

MOST_AT_ONCE = 8  # names given to one process
TOTALS = re.compile(r"^(\d+) passed, (\d+) failed(?:, (\d+) skipped)?$", re.MULTILINE)
DURATION = re.compile(r"^(\d+\.\d+) s: (.*)$", re.MULTILINE)
SKIPPED = re.compile(r"^.* are skipped: .*$", re.MULTILINE)


def names_of(program):
    """The names of the program's tests, a line each; Catch2 3 has another option for it than version 2."""
    for options in (["--list-test-names-only"], ["--list-tests", "--verbosity", "quiet"]):
        listed = subprocess.run([program, *options], capture_output=True, text=True)
        names = [line.strip() for line in listed.stdout.splitlines() if line.strip()]
        if names and "nrecognised token" not in listed.stdout + listed.stderr:
            return names
    return []


def escaped(name):
    """As Catch2 reads a test's name: a comma would end it."""
    return re.sub(r"([\\,\[\"])", r"\\\1", name)


class Run:
    def __init__(self, program, names):
        self.program, self.left, self.count = program, list(names), len(names)
        self.lock = threading.Lock()
        self.processes, self.durations, self.told = set(), [], set()
        self.passed = self.failed = self.skipped = self.died = 0
        self.stopped = False

    def take(self, jobs):
        with self.lock:
            n = 0 if self.stopped else max(1, min(MOST_AT_ONCE, len(self.left) // (4 * jobs)))
            names, self.left = self.left[:n], self.left[n:]
            return names

    def work(self, jobs):
        while names := self.take(jobs):
            with tempfile.NamedTemporaryFile("w", suffix=".txt", prefix="causeway-names-") as file:
                file.write("".join(escaped(name) + "\n" for name in names))
                file.flush()
                process = subprocess.Popen([self.program, "--durations", "yes", "--input-file", file.name],
                                           stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                           text=True, errors="replace")
                with self.lock:
                    self.processes.add(process)
                output = process.communicate()[0]
            with self.lock:
                self.processes.discard(process)
                if not self.stopped:
                    self.note(names, output, process.returncode)

    def note(self, names, output, status):
        totals = TOTALS.findall(output)
        passed, failed, skipped = (int(x or 0) for x in totals[-1]) if totals else (0, 0, 0)
        self.passed, self.failed, self.skipped = self.passed + passed, self.failed + failed, self.skipped + skipped
        self.durations += [(float(seconds), name) for seconds, name in DURATION.findall(output) if name in names]
        for line in SKIPPED.findall(output):
            if line not in self.told:
                self.told.add(line)
                print(line, flush=True)
        ran = passed + failed + skipped
        if status != 0 or ran != len(names):
            print(DURATION.sub("", output).strip(), flush=True)
        if ran != len(names):
            self.died += 1
            how = signal.Signals(-status).name if status < 0 else f"status {status}"
            print(f"a process ended with {how} after {ran} of {len(names)} tests: {'; '.join(names)}", flush=True)
        if sys.stderr.isatty():
            done = self.count - len(self.left)
            sys.stderr.write(f"\r{done} of {self.count} " + ("\n" if done == self.count else ""))

    def run(self, jobs):
        threads = [threading.Thread(target=self.work, args=(jobs,), daemon=True) for _ in range(jobs)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def stop(self):
        with self.lock:
            self.stopped = True
            for process in self.processes:
                process.kill()


def main():
    if len(sys.argv) != 3 or not sys.argv[1].isdigit() or int(sys.argv[1]) < 1:
        sys.exit(__doc__.splitlines()[0])
    jobs, program = int(sys.argv[1]), sys.argv[2]
    names = names_of(program)
    if not names:
        sys.exit(f"{program} lists no test")
    begun = time.monotonic()
    run = Run(program, names)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        run.run(jobs)
    except KeyboardInterrupt:
        run.stop()
        sys.exit(f"stopped: {run.passed} passed, {run.failed} failed, {run.skipped} skipped of {len(names)}")
    longest = "; ".join(f"{seconds:.0f} s {name}" for seconds, name in sorted(run.durations, reverse=True)[:5])
    print(f"{time.monotonic() - begun:.0f} s in {jobs} processes; the longest tests: {longest}")
    print(f"{run.passed} passed, {run.failed} failed" + (f", {run.skipped} skipped" if run.skipped else ""))
    sys.exit(0 if run.failed == run.died == 0 else 1)


main()
