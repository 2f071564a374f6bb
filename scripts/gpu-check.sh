#!/usr/bin/env bash
# Run the checks that need a GPU, in some 9 minutes, and print a table of pass, fail and measurements:
#   scripts/gpu-check.sh [--stackline PROGRAM] [--python PYTHON] [--out FOLDER] [PART…]
# PARTs (default: all): machine, programs (frameworks, snapshots, JAX, counters, the recorder), gains, costs; parts of programs: alone, check.
# PROGRAM is a built `stackline` with `libstackline_record.so` in the same folder; FOLDER gets traces, snapshots and logs.
# Nothing is fetched; a part whose framework is missing says so and is no failure.
set -uo pipefail
cd "$(dirname "$0")/.."

stackline="$PWD/target/release/stackline"
python=python3
out="${OUT:-$PWD/out/gpu}"
parts=()
while [ $# -gt 0 ]; do
  case "$1" in
    --stackline) stackline=$2; shift 2 ;;
    --python) python=$2; shift 2 ;;
    --out) out=$2; shift 2 ;;
    -h | --help) sed -n '2,6s/^# \{0,1\}//p' "$0"; exit 0 ;;
    *) parts+=("$1"); shift ;;
  esac
done
[ ${#parts[@]} -gt 0 ] || parts=(machine programs gains costs)
readonly work="${TMPDIR:-/tmp}/stackline-gpu-check"
rm -rf "$work"
mkdir -p "$out" "$work"

# step PART NAME LIMIT_SECONDS COMMAND…: runs it with its output in a log, and keeps its exit status. Status 3: something is not installed.
step() {
  local name="$1-$2" limit=$3 began=$SECONDS
  local label="| $1 | $2"
  shift 3
  timeout "$limit" "$@" >"$work/$name.log" 2>&1
  echo "$? $((SECONDS - began)) $label" >"$work/$name.status"
}

machine() {
  step machine nvidia-smi 30 nvidia-smi -q
  step machine python 60 "$python" -c 'import sys, torch; print(sys.version, torch.__version__, torch.version.cuda, torch.cuda.get_device_properties(0)); torch.zeros(1).cuda()'
}

alone() {
  step framework streams 40 "$python" benches/gpu/frameworks.py streams "$work/frameworks"
  step framework full_queue 40 "$python" benches/gpu/frameworks.py full_queue "$work/frameworks"
}

check() {
  step recorder programs 200 "$python" benches/gpu/recorder.py check "$stackline" "$work/recorder"
  cat "$work/recorder-programs.log"
}

# Programs that measure no times run in parallel.
programs() {
  local name
  for name in gpt2_with_trainer llama_generates resnet_by_timm lightning_trainer graph_network compiled_with_graphs distributed threads; do
    step framework "$name" 100 "$python" benches/gpu/frameworks.py "$name" "$work/frameworks" &
  done
  wait
  # These two measure concurrent work of GPU and host: nothing else may use the GPU.
  alone
  step memory snapshots 90 "$python" benches/gpu/snapshots.py "$work/snapshots" &
  XLA_PYTHON_CLIENT_PREALLOCATE=false step jax profiler 90 "$python" benches/gpu/jax_programs.py "$work/jax" &
  wait
  check
  if command -v ncu >/dev/null; then
    step counters ncu 60 ncu --set full --clock-control none --launch-skip 60 --launch-count 12 -f -o "$work/ncu" "$python" benches/gpu/train.py small --steps 4
    step counters csv 30 bash -c "ncu --import '$work/ncu.ncu-rep' --csv --page raw >'$work/ncu.csv'"
  fi
}

gains() {
  step gains problems 170 "$python" benches/gpu/gains.py "$work/gains"
  grep -h '"step_ms"\|failed' "$work/gains-problems.log" | cut -c1-160
}

costs() {
  step recorder costs 100 "$python" benches/gpu/recorder.py costs "$stackline" "$work/recorder"
  cat "$work/recorder-costs.log"
}

for part in "${parts[@]}"; do "$part"; done

failed=0
printf '\n| part | check | verdict | took |\n|---|---|---|---|\n'
for name in "$work"/*.status; do
  read -r status seconds label <"$name"
  case "$status" in
    0) verdict=pass ;;
    3) verdict="not installed" ;;
    *) verdict="FAIL ($status)"; failed=1 ;;
  esac
  printf '%s | %s | %s s |\n' "$label" "$verdict" "$seconds"
done
for name in "$work"/*.status; do
  read -r status _ <"$name"
  case "$status" in 0 | 3) ;; *) echo "== $(basename "$name" .status)"; tail -n 12 "${name%.status}.log" | cut -c1-300 ;; esac
done

# The most important files are first, in case the transfer is cut; parts of 15 MB, since some transfers have a size limit.
(cd "$work" && tar -cf - ./*.log ncu.* jax gains frameworks snapshots recorder 2>/dev/null | xz -T0 -4 | split -b 15M - "$out/files.tar.xz.")
exit "$failed"
