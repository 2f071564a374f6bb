# Steps of `./dev test`, which reads this file: each step runs even if earlier steps failed; a summary lists all.
# Used: $logs (a folder), steps and failed (arrays), say.

# Step that runs in parallel with others: its name and process.
parallel_step=()

# step NAME COMMAND…: runs it in a subshell, and notes its wall time and the CPU time of all processes that ended
# meanwhile. If it fails or exits, later steps still run, so that one run shows all failures.
step() {
  local name=$1 from=$SECONDS outcome=ok cpu_from cpu
  shift
  say "$name"
  # A subshell would print only its own times, which are 0.
  times >"$logs/times" || true
  cpu_from=$(cpu_seconds)
  if ! kept "$name" "$@"; then
    outcome=FAILED
    failed+=("$name")
  fi
  times >"$logs/times" || true
  cpu=$(($(cpu_seconds) - cpu_from))
  note "$name" $((SECONDS - from)) "$cpu" "$outcome"
}

# note NAME SECONDS CPU OUTCOME: a line of the summary.
note() {
  steps+=("$(printf '%5d s %5d CPU s  %-6s  %s' "$2" "$3" "$4" "$1")")
}

# begin NAME COMMAND…: starts a step in parallel with the next ones; `finish` prints its output and notes it.
begin() {
  local name=$1 from=$SECONDS
  shift
  say "$name (in parallel with the next steps)"
  (
    outcome=ok
    ("$@") >"$logs/$name.log" 2>&1 || outcome=FAILED
    times >"$logs/$name.times"
    echo "$((SECONDS - from)) $(cpu_seconds "$logs/$name.times") $outcome" >"$logs/$name.outcome"
  ) &
  parallel_step=("$name" $!)
}

finish() {
  local name=${parallel_step[0]} seconds=0 cpu=0 outcome=FAILED
  wait "${parallel_step[1]}" || true
  say "$name"
  cat "$logs/$name.log"
  read -r seconds cpu outcome <"$logs/$name.outcome" || true
  [ "$outcome" = ok ] || failed+=("$name")
  note "$name" "$seconds" "$cpu" "$outcome"
}

# cpu_seconds [FILE]: CPU time in seconds of all child processes that have ended, from the second line of `times`:
# 1m2.345s 0m6.789s.
cpu_seconds() {
  awk '
    NR == 2 { split($1, user, /[ms]/); split($2, kernel, /[ms]/); sum = (user[1] + kernel[1]) * 60 + user[2] + kernel[2] }
    END { printf "%d", sum }
  ' "${1:-$logs/times}" || echo 0
}

# kept NAME COMMAND…: runs it in a subshell; its output is also written to $logs, unless it goes to a terminal.
kept() {
  local log="$logs/$1.log"
  shift
  if [ -t 1 ]; then
    ("$@")
  else
    ("$@") 2>&1 | tee "$log"
  fi
}

# Print the last lines of the failed steps, and the tests that passed only at the second try: readers may have only the
# end of the output.
failure_summary() {
  local name log again
  for name in "${failed[@]}"; do
    log="$logs/$name.log"
    [ -f "$log" ] || continue
    say "$name failed; the end of its output"
    tail -n 80 "$log"
  done
  if again=$(grep -rhE '^ *FLAKY|\(retry x[0-9]' "$logs" | sort -u); then
    say "passed at the second try"
    printf '%s\n' "$again"
  fi
}
