# One target of `./dev fuzz`.

# fuzz_target NAME FOLDER PROGRAMS LIMIT…: runs the target NAME in PROGRAMS until LIMIT, from its seeds and the inputs kept in FOLDER,
# and prints the number of executions; failing inputs are written to FOLDER/found.
fuzz_target() {
  local name=$1 folder=$2 programs=$3
  shift 3
  mkdir -p "$folder/corpus/$name"
  "$programs/$name" "$@" -max_len=8192 -timeout=20 -rss_limit_mb=2048 -print_final_stats=1 \
    -artifact_prefix="$folder/found/$name-" "$folder/corpus/$name" "$folder/seeds/$name" 2>"$folder/$name.log" || {
    echo "fuzzing $name failed"
    tail -n 40 "$folder/$name.log"
    return 1
  }
  sed -n "s/^stat::number_of_executed_units: */$name: executions: /p; s/^stat::peak_rss_mb: */$name: peak MiB: /p" "$folder/$name.log"
}
