#!/usr/bin/env python3
"""
Measure samplerd and write build/bench/table.md and its plots.

  make bench                           all of it
  make bench-quick                     shorter runs
  make bench ARGS='--only server'      a part: core, server, transports, latency, memory
"""

import argparse
import json
import math
import os
import platform
import random
import shutil
import statistics
import subprocess
import sys
from array import array
from pathlib import Path

import load
import report
import transports

PARAMETERS = {"temperature": 0.8, "top_k": 40, "top_p": 0.95, "seed": 7}
SIZES = {"small": 256, "513 KB": 128256, "4 MB": 1048576}  # float32 bytes; tokens
SWEEP = [1, 2, 4, 8, 16, 32, 64]
PARTS = ["core", "server", "transports", "latency", "memory"]
AXES = ["vocab_size", "batch", "workers"]


def log(text):
    print(text, file=sys.stderr, flush=True)


# ---- bodies ----

def write_json(path, logits, digits=None):
    numbers = [round(x, digits) for x in logits] if digits else list(logits)
    path.write_text(json.dumps({"logits": [numbers], **PARAMETERS}))


def make_bodies(directory):
    """Roughly what logits are: normal, mean -1, deviation 3.  JSON as json.dumps prints a float32 made double."""
    directory.mkdir(parents=True, exist_ok=True)
    rng = random.Random(1)
    bodies = []
    for name, vocab_size in SIZES.items():
        logits = array("f", (rng.gauss(-1, 3) for _ in range(vocab_size)))
        stem = directory / f"logits_{vocab_size}"
        query = "&".join(f"{key}={value}" for key, value in {"vocab_size": vocab_size, **PARAMETERS}.items())
        stem.with_suffix(".f32").write_bytes(logits.tobytes())
        write_json(stem.with_suffix(".json"), logits)
        bodies += [load.Body(f"{name} raw", vocab_size, stem.with_suffix(".f32"), "application/octet-stream",
                             "?" + query),
                   load.Body(f"{name} JSON", vocab_size, stem.with_suffix(".json"), "application/json")]
        if name == "513 KB":
            short = directory / f"logits_{vocab_size}_4_digits.json"
            write_json(short, logits, 4)
            bodies.append(load.Body(f"{name} JSON, 4 decimals", vocab_size, short, "application/json"))
    return bodies


# ---- programs ----

def samplerd(build):
    return lambda address: [str(build / "samplerd"), "--listen", address, "--max-inflight-bytes", "8G",
                            "--system-shared-memory", "on", "--log-level", "warn"]


def sink(build):
    return lambda address: [str(build / "bench" / "sink"), address.rpartition(":")[2]]


# ---- the whole server against the sink ----

def cjson_seconds(body, options):
    """How long cJSON takes for a body, as long as the machine is as busy as it is now."""
    return float(subprocess.check_output([options.build / "bench" / "cjson_parse", body.path])) / 1e3


def ratios(ours, theirs):
    """The median of the ratios of throughput within each round; None where nothing came through."""
    found = [a.rate / b.rate for a, b in zip(ours, theirs) if b.requests > 0]
    return statistics.median(found) if found else None


def compare(server, bare, body, connections, options):
    """Rounds of the sink, samplerd and cJSON in turn; medians."""
    rounds, seconds = options.large_runs if body.vocab_size > 200_000 else options.runs
    ours, theirs, rows_per_parse = [], [], []
    for _ in range(rounds):
        theirs.append(load.send(bare, body, connections, seconds))
        ours.append(load.send(server, body, connections, seconds))
        if body.path.suffix == ".json":
            rows_per_parse.append(ours[-1].rate * cjson_seconds(body, options))
    return {
        "body": body.name, "connections": connections,
        "sink requests/s": load.median(theirs, "rate"), "samplerd requests/s": load.median(ours, "rate"),
        "ratio": ratios(ours, theirs),
        "sink p50 ms": load.median(theirs, "p50_ms"), "samplerd p50 ms": load.median(ours, "p50_ms"),
        "sink p99 ms": load.median(theirs, "p99_ms"), "samplerd p99 ms": load.median(ours, "p99_ms"),
        "sink CPU us": load.median(theirs, "cpu_us"), "samplerd CPU us": load.median(ours, "cpu_us"),
        "CPU ratio": load.median(theirs, "cpu_us") / (load.median(ours, "cpu_us") or math.nan),
        "rows per cJSON parse": statistics.median(rows_per_parse) if rows_per_parse else None,
        "failed": sum(run.failed for run in ours + theirs),
    }


def measure_server(bodies, options):
    records = []
    with load.serving(sink(options.build)) as bare, load.serving(samplerd(options.build)) as server:
        for body in bodies:
            for connections in options.connections:
                record = compare(server, bare, body, connections, options)
                records.append(record)
                log(f"{body.name}, {connections} connections: {record['samplerd requests/s']:.0f} requests/s, "
                    f"{report.number(record['ratio'])} of the sink")
    return records


def bar(text, limit, measured, held):
    return {"bar": text, "limit": limit, "measured": measured, "held": "yes" if held else "NO"}


SINK_BARS = [("small raw", 4, 0.7), ("small JSON", 4, 0.75), ("small JSON", 16, 0.75), ("513 KB raw", 4, 0.68)]


def server_bars(records):
    """Throughput against the sink's; JSON at four connections against cJSON; and that nothing failed."""
    found = {(record["body"], record["connections"]): record for record in records}
    bars = []
    for name, connections, least in SINK_BARS:
        ratio = found[name, connections]["ratio"]
        bars.append(bar(f"{name}, {connections} connections: throughput, of the bare sink's", f">= {least}", ratio,
                        ratio >= least))
    at_four = {name: record for (name, connections), record in found.items() if connections == 4}
    for name in [name for name in at_four if name.startswith("513 KB JSON")]:
        rows = at_four[name]["rows per cJSON parse"]
        bars.append(bar(f"{name}: rows answered in the time of one cJSON parse", ">= 8", rows, rows >= 8))
    failed = sum(record["failed"] for record in records)
    return bars + [bar("requests that failed", "0", failed, failed == 0)]


# ---- ways to hand over a row ----

def measure_transports(bodies, options):
    """The 513 KB row over TCP, a unix socket and shared memory, in turn; medians."""
    body = next(b for b in bodies if b.name == "513 KB raw")
    sender, directory = options.build / "bench" / "sender", options.build / "bench" / "bodies"
    rounds, seconds = options.runs
    records = []
    with transports.opened(samplerd(options.build), body, PARAMETERS, directory) as ways:
        for connections in [1, 4, 16]:
            runs = {name: [] for name in ways}
            for _ in range(rounds):
                for name, (program, path) in ways.items():
                    runs[name].append(load.send_file(sender, program, path, connections, seconds))
            for name, found in runs.items():
                records.append({
                    "handed over": name, "connections": connections, "rows/s": load.median(found, "rate"),
                    "of raw over TCP": ratios(found, runs[transports.BASELINE]),
                    "p50 ms": load.median(found, "p50_ms"), "p99 ms": load.median(found, "p99_ms"),
                    "CPU us": load.median(found, "cpu_us"), "failed": sum(run.failed for run in found)})
                log(f"{name}, {connections} connections: {records[-1]['rows/s']:.0f} rows/s")
    return records


def transport_bars(records):
    shared = [r["of raw over TCP"] for r in records if "shared" in r["handed over"] and r["connections"] == 4]
    failed = sum(record["failed"] for record in records)
    return [bar("rows over shared memory, of those over raw TCP", ">= 3", min(shared), min(shared) >= 3),
            bar("rows over any transport that failed", "0", failed, failed == 0)]


# ---- p99 against load ----

def measure_latency(bodies, options):
    """{body: [(connections, requests a second, p99 ms)]}"""
    chosen = [body for body in bodies if body.name in ("small raw", "513 KB raw", "513 KB JSON", "4 MB raw")]
    found = {}
    with load.serving(samplerd(options.build)) as server:
        for body in chosen:
            found[body.name] = []
            for connections in SWEEP:
                runs = [load.send(server, body, connections, 1) for _ in range(1 if options.quick else 3)]
                found[body.name].append((connections, load.median(runs, "rate"), load.median(runs, "p99_ms")))
            log(report.knee(body.name, found[body.name]))
    return found


def report_latency(found, directory):
    sentences = [report.knee(name, points) for name, points in found.items()]
    lines = {name: [(connections, p99) for connections, _, p99 in points] for name, points in found.items()}
    report.plot(directory / "p99.svg", "p99 against load", "connections, each with one request under way", "p99, ms",
                lines)
    records = [{"body": name, "connections": c, "requests/s": rate, "p99 ms": p99}
               for name, points in found.items() for c, rate, p99 in points]
    note = ("Load is set by connections, each with one request under way (wrk has no rate to set).\n\n" +
            "\n".join(f"- {s}" for s in sentences) + "\n\n![p99 against connections](p99.svg)")
    return report.table("p99 against load", records, note)


# ---- resident memory ----

def measure_memory(bodies, options):
    """Resident memory after so many small requests on one server; at most two minutes."""
    body = next(b for b in bodies if b.name == "small raw")
    records, sent, spent = [], 0, 0.0
    with load.serving(samplerd(options.build)) as server:
        for goal in options.memory_requests:
            while sent < goal and spent < 120:
                rate = sent / spent if spent else 1e4
                seconds = max(1, min(10, round((goal - sent) / rate)))
                run = load.send(server, body, 16, seconds)
                sent, spent = sent + run.requests, spent + run.seconds
            records.append({"small requests": sent, "resident KiB": server.resident_kib()})
            log(f"after {sent} requests: {server.resident_kib()} KiB")
    return records


def memory_bar(records):
    first, last = records[0], records[-1]
    growth = 100 * (last["resident KiB"] / first["resident KiB"] - 1)
    return [bar(f"growth of resident memory from {first['small requests']} to {last['small requests']} requests, %",
                "<= 5", growth, growth <= 5)]


# ---- core and numbers, measured by samplerd-bench ----

def core_records(mode, options):
    """JSON objects, one a line, of a mode of samplerd-bench; none while it is not built."""
    program = options.build / "samplerd-bench"
    if not program.exists():
        log(f"{program} is not built; {mode} is left out")
        return []
    command = [program, mode, "--json"] + (["--budget-ms", "10"] if options.quick else [])
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, timeout=900)
    if done.returncode != 0:
        log(f"{' '.join(map(str, command))} ended with {done.returncode}")
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def core_bars(records):
    """Of all figures that have the same bar, the worst; a ratio is to reading the row once."""
    groups = {}
    for record in records:
        if record["bar"]:
            groups.setdefault((record["case"], record["kernels"], record["bar"]), []).append(record)
    bars = []
    for (case, kernels, text), members in groups.items():
        column, relation, limit = text.split()
        worst = (max if relation == "<=" else min)(member[column] for member in members)
        bars.append(bar(f"core, {case}, {kernels}: {column}", f"{relation} {limit}", worst,
                        all(member["holds"] for member in members)))
    return bars


def rule_bars(records):
    return [bar(f"{r['rule']}, {r['rows']} row, {r['kernels']}: {r['measure']}", f"<= {r['limit']}", r["measured"],
                r["holds"]) for r in records if r["limit"] is not None]


def report_rules(records, directory):
    """Those with a length of their history as a plot of that."""
    lines = {}
    for r in records:
        if r["limit"] is None:
            name, length = r["rule"].rsplit("_", 1)
            lines.setdefault(name, []).append((int(length), max(r["measured"], 0.1)))  # the axis is logarithmic
    picture = "rules_history.svg"
    made = report.plot(directory / picture, "Rules over a history", "ids", "microseconds more a row", lines)
    return report.table("Rules", records, f"![rules over a history]({picture})" if made else "")


def report_core(core, directory, options):
    growth, numbers = (core_records(mode, options) for mode in ("growth", "numbers"))
    labels = {"vocab_size": "tokens a row", "batch": "rows a batch", "workers": "workers"}
    pictures = []
    for axis, label in labels.items():
        lines = report.series(core + growth, axis, "us_per_row", AXES, ["case", "row", "kernels"])
        if report.plot(directory / f"{axis}.svg", f"Time of a row against {label}", label, "microseconds a row",
                       lines):
            pictures.append(f"![time of a row against {label}]({axis}.svg)")
    return (report.table("Core", core, "\n".join(pictures)) + report.table("Growth", growth) +
            report.table("Numbers in JSON", numbers))


# ---- all of it ----

def parse_arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--build", type=Path, default=Path("build"), help="where the programs are")
    parser.add_argument("--quick", action="store_true", help="one round of short runs")
    parser.add_argument("--only", action="append", choices=PARTS)
    options = parser.parse_args()
    options.runs, options.large_runs = ((1, 1), (1, 2)) if options.quick else ((5, 1), (3, 3))  # how many, seconds
    options.connections = [4, 16] if options.quick else [1, 4, 16, 64]
    options.memory_requests = [10_000, 100_000 if options.quick else 1_000_000]
    options.parts = options.only or PARTS
    return options


def heading(options):
    cpu = next((line.split(":", 1)[1].strip() for line in Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    version = subprocess.check_output([options.build / "samplerd", "--version"], text=True).strip()
    runs, seconds = options.runs
    return (f"# {version} measured\n\n{len(os.sched_getaffinity(0))} CPUs of {cpu}; load generator and server share "
            f"them, over loopback. {runs} run{'s' * (runs > 1)} of {seconds} s for each figure, 4 MB bodies "
            f"{options.large_runs[0]} of {options.large_runs[1]} s; medians. "
            f"Load average when it began: {os.getloadavg()[0]:.1f} (of an idle machine: below 0.5).\n\n")


def main():
    options = parse_arguments()
    if set(options.parts) != {"core"} and shutil.which("wrk") is None or shutil.which("gnuplot") is None:
        raise SystemExit("wrk and gnuplot are needed: make deps-bench")
    directory = options.build / "bench"
    bodies = make_bodies(directory / "bodies")
    text, bars = heading(options), []
    if "core" in options.parts:
        records = core_records("core", options)
        bars += core_bars(records)
        text += report_core(records, directory, options)
        records = core_records("rules", options)
        bars += rule_bars(records)
        text += report_rules(records, directory)
    if "server" in options.parts:
        records = measure_server(bodies, options)
        bars += server_bars(records)
        text += report.table("Whole server", records, "Sink: libmicrohttpd that takes the body and answers a "
                             "constant, on one thread. CPU us: the server's processor time a request; CPU ratio, sink's "
                             "to samplerd's: steadier than the ratio of throughputs where others use the machine.")
    if "transports" in options.parts:
        records = measure_transports(bodies, options)
        bars += transport_bars(records)
        text += report.table("Ways to hand over a row", records, "One row of 128,256 float32 a request, temperature "
                             "0.8, top_k 40, top_p 0.95, sent by bench/sender.c. CPU us: the server's.")
    if "latency" in options.parts:
        text += report_latency(measure_latency(bodies, options), directory)
    if "memory" in options.parts:
        records = measure_memory(bodies, options)
        bars += memory_bar(records)
        text += report.table("Resident memory", records)
    text += report.table("Bars", bars)
    (directory / "table.md").write_text(text)
    print(text)


if __name__ == "__main__":
    main()
