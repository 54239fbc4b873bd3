#!/bin/sh
# Run every fuzz target of a build for so many seconds: tests/fuzz.sh BUILD SECONDS TARGET...
# Seeds are in tests/corpus/, what is found in BUILD/corpus/, and what fails in BUILD/findings/.
set -u
build=$1 seconds=$2
shift 2
mkdir -p "$build/findings"
failed=0 report=
for target; do
    log=$build/$target.log
    mkdir -p "$build/corpus/$target"
    echo "fuzz_$target for $seconds s, told in $log"
    verdict=ok
    UBSAN_OPTIONS=print_stacktrace=1 "$build/tests/fuzz_$target" -max_total_time="$seconds" -max_len=8192 \
        -timeout=20 -rss_limit_mb=2048 -reload=0 -entropic_scale_per_exec_time=1 -print_final_stats=1 \
        -artifact_prefix="$build/findings/$target-" "$build/corpus/$target" "tests/corpus/$target" \
        >"$log" 2>&1 || verdict=FAILED
    if [ $verdict != ok ]; then
        failed=1
        grep -v '^#' "$log" | tail -n 60
    fi
    report="$report$(awk -v name="fuzz_$target" -v verdict=$verdict '
        /cov: /                          { for (i = 1; i < NF; i++) if ($i == "cov:") edges = $(i + 1) }
        /stat::number_of_executed_units/ { runs = $2 }
        /stat::average_exec_per_sec/     { rate = $2 }
        /stat::new_units_added/          { found = $2 }
        END { printf "%-14s %-6s %9d runs %7d/s %6d edges %5d new inputs", name, verdict, runs, rate, edges, found }
    ' "$log")
"
done
printf '%s' "$report"
exit $failed
