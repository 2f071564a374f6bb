# Steps of `./dev test`, which reads this file: each is run whatever became of those before it, and told at the end.
# Used: $logs (a folder), steps and failed (arrays), say.

# step NAME COMMAND…: runs it in a shell of its own, notes how long it took and the CPU time of all processes that ended
# meanwhile, goes on if it fails or exits (one run shows all that is wrong).
step() {
  local name=$1 from=$SECONDS outcome=ok cpu_from cpu
  shift
  say "$name"
  # A subshell would tell its own times: none.
  times >"$logs/times" || true
  cpu_from=$(cpu_seconds)
  if ! kept "$name" "$@"; then
    outcome=FAILED
    failed+=("$name")
  fi
  times >"$logs/times" || true
  cpu=$(($(cpu_seconds) - cpu_from))
  steps+=("$(printf '%5d s %5d CPU s  %-6s  %s' $((SECONDS - from)) "$cpu" "$outcome" "$name")")
}

# CPU time in seconds of all child processes that have ended, from the second line of `times`: 1m2.345s 0m6.789s.
cpu_seconds() {
  awk '
    NR == 2 { split($1, user, /[ms]/); split($2, kernel, /[ms]/); sum = (user[1] + kernel[1]) * 60 + user[2] + kernel[2] }
    END { printf "%d", sum }
  ' "$logs/times" || echo 0
}

# kept NAME COMMAND…: runs it in a shell of its own; what it prints is kept in $logs, too, unless a terminal shows it.
kept() {
  local log="$logs/$1.log"
  shift
  if [ -t 1 ]; then
    ("$@")
  else
    ("$@") 2>&1 | tee "$log"
  fi
}

# The ends of what the failed steps printed, and what passed at a second try only: whoever has the end of the output alone
# must see them.
what_failed() {
  local name log again
  for name in "${failed[@]}"; do
    log="$logs/$name.log"
    [ -f "$log" ] || continue
    say "$name failed; the end of what it printed"
    tail -n 80 "$log"
  done
  if again=$(grep -rhE '^ *FLAKY|\(retry x[0-9]' "$logs" | sort -u); then
    say "passed at the second try"
    printf '%s\n' "$again"
  fi
}
