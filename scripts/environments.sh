# Environments that `./dev` installs for its tests: PyTorch, programs that open exports, a browser. Each is made once, for
# all checkouts.
# Used: $python, steps (an array), step.

# A Python with a stock PyTorch (python/torch_env.py; made once, for all checkouts); its path goes to stdout.
torch_environment() {
  if [ -n "${STACKLINE_TORCH:-}" ]; then
    echo "$STACKLINE_TORCH"
  else
    "$python" python/torch_env.py --python "$python"
  fi
}

# Programs that open our exports (python/consumers_env.py; made once, for all checkouts); its path goes to stdout.
consumers_environment() {
  if [ -n "${STACKLINE_CONSUMERS:-}" ]; then
    echo "$STACKLINE_CONSUMERS"
  else
    "$python" python/consumers_env.py
  fi
}

# Browser for the tests of the page (python/browser_env.py; made once, for all checkouts); its path goes to stdout.
browser_environment() {
  "$python" python/browser_env.py
}

# needs PID LOG VARIABLE NAME: waits for an environment, and exports its path for the tests. Without it, tests that need
# it are skipped; in CI that is a failure.
needs() {
  if wait "$1"; then
    export "$3=$(cat "$2.path")"
    step "$4" cat "$2.path"
    return
  fi
  cat "$2"
  unset "$3"
  if [ "${CI:-}" = true ]; then
    step "$4" false
  else
    echo "no $4: tests that need it are skipped ($3 names one)"
  fi
}
