"""Programs in JAX, profiled by `jax.profiler`: an xplane file and its Chrome trace for each.

    python benches/gpu/jax_programs.py OUT
"""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp


def train(out: Path) -> None:
    """A jitted step of a small network, called from Python, with a value read in each step."""
    keys = jax.random.split(jax.random.PRNGKey(0), 8)
    weights = [jax.random.normal(key, (1024, 1024)) * 0.03 for key in keys]
    x = jax.random.normal(keys[0], (512, 1024))

    def loss(weights, x):
        for weight in weights:
            x = jax.nn.gelu(x @ weight)
        return jnp.mean(x * x)

    @jax.jit
    def step(weights, x):
        value, grads = jax.value_and_grad(loss)(weights, x)
        return value, [w - 1e-3 * g for w, g in zip(weights, grads)]

    _, weights = step(weights, x)
    with jax.profiler.trace(str(out / "jax-train"), create_perfetto_link=False):
        for number in range(5):
            with jax.profiler.StepTraceAnnotation("train", step_num=number):
                value, weights = step(weights, x)
                float(value)


def eager(out: Path) -> None:
    """Operations one by one, without jit, and a convolution."""
    images = jnp.ones((32, 64, 64, 16))
    kernel = jnp.ones((3, 3, 16, 32))

    def run():
        y = jax.lax.conv_general_dilated(images, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC"))
        y = jnp.tanh(y) * 0.5 + 1.0
        return jnp.sum(y, axis=(1, 2)).block_until_ready()

    run()
    with jax.profiler.trace(str(out / "jax-eager")):
        for _ in range(4):
            run()


def main() -> None:
    out = Path(sys.argv[1])
    out.mkdir(parents=True, exist_ok=True)
    train(out)
    eager(out)


if __name__ == "__main__":
    main()
