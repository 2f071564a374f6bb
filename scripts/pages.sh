# Commands of the documentation's pages, run by `./dev test`, which reads this file. Used: build_programs (a function).

# pages PAGE…: run the commands of pages of the documentation.
pages() {
  local page
  for page in "$@"; do
    cargo run --quiet --locked -p xtask -- readme "$page" || return 1
  done
}

readme() {
  build_programs || return 1
  pages README.md docs/get-started/{first-trace,first-recording,tour}.md \
    docs/how-to/{find-a-slow-step,compare-two-runs,gate-a-build,find-wasted-memory}.md \
    docs/how-to/{explore-a-call-tree,export-a-call-tree,share-a-report}.md || return 1
  # An outdated picture is no failure, only a note.
  cargo run --quiet --locked -p xtask -- picture --check || echo "note: the picture of the README is out of date"
}

# Pages whose commands record PyTorch programs.
recording_pages() {
  pages docs/how-to/record-{training,a-trace,memory,shapes,native-frames}.md docs/how-to/{find-waits,add-spans}.md
}
