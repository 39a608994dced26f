"""Trains a small neural network with nothing but Python's standard library: it learns which of two spirals a point belongs to.

A stand-in for your own training: what matters here is where checkpoints go, how a run resumes, and how metrics reach the console.
"""

import json
import math
import os
import random
import tempfile
from pathlib import Path

try:
    from tuneplane import report
except ImportError:  # the image does not hold the reporter: the output below is all there is
    report = None

STEPS, SAVE_EVERY, BATCH, HIDDEN, RATE, SEED = 40, 20, 32, 24, 0.3, 42
OUT = Path(os.environ.get("TUNEPLANE_OUT_DIR") or tempfile.mkdtemp(prefix="tuneplane-"))


def main() -> None:
    generator = random.Random(SEED)
    points = [spiral_point(index) for index in range(400)]
    weights = [[generator.gauss(0, 1) for _ in range(3)] for _ in range(HIDDEN)]
    output = [generator.gauss(0, 0.3) for _ in range(HIDDEN + 1)]
    first = 1
    if os.environ.get("TUNEPLANE_RESUME_FROM"):
        state = json.loads((Path(os.environ["TUNEPLANE_RESUME_FROM"]) / "state.json").read_text())
        first, weights, output = state["step"] + 1, state["weights"], state["output"]
    for step in range(first, STEPS + 1):
        # A generator of its own for each step: a resumed run draws the rows that an uninterrupted one would.
        batch = random.Random(f"{SEED}/{step}").sample(points, BATCH)
        loss = update(weights, output, batch)
        right = sum((predict(weights, output, x, y)[1] > 0.5) == (label == 1) for x, y, label in points)
        print(f"step {step} loss {loss:.4f} accuracy {right / len(points):.3f}", flush=True)
        if report:
            report.log({"train/loss": loss, "train/accuracy": right / len(points)}, step=step)
        if step % SAVE_EVERY == 0:
            save({"step": step, "weights": weights, "output": output})
    if report:
        report.finish()


def spiral_point(index: int) -> tuple[float, float, int]:
    """One of 200 points on each of two arms that wind around the origin."""
    label, along = index % 2, (index // 2) / 200
    angle = 1.5 * math.pi * along + math.pi * label
    return along * math.cos(angle) * 2, along * math.sin(angle) * 2, label


def predict(weights: list, output: list, x: float, y: float) -> tuple[list[float], float]:
    """Hidden activations and the probability of label 1."""
    hidden = [math.tanh(a * x + b * y + c) for a, b, c in weights]
    total = sum(weight * value for weight, value in zip(output, hidden)) + output[-1]  # noqa: B905 - any Python
    return hidden, 1 / (1 + math.exp(-max(-30.0, min(30.0, total))))


def update(weights: list, output: list, batch: list) -> float:
    """Gradient descent on each row of the batch in turn; mean cross-entropy before the updates."""
    loss = 0.0
    for x, y, label in batch:
        hidden, probability = predict(weights, output, x, y)
        loss -= math.log(max(1e-12, probability if label == 1 else 1 - probability))
        error = probability - label
        for unit, value in enumerate(hidden):
            slope = error * output[unit] * (1 - value * value) * RATE
            output[unit] -= RATE * error * value
            weights[unit][0] -= slope * x
            weights[unit][1] -= slope * y
            weights[unit][2] -= slope
        output[-1] -= RATE * error
    return loss / len(batch)


def save(state: dict) -> None:
    """The empty file COMPLETE, written last, tells the platform that a run can resume from this checkpoint."""
    target = OUT / "checkpoints" / f"checkpoint-{state['step']}"
    target.mkdir(parents=True, exist_ok=True)
    (target / "state.json").write_text(json.dumps(state))
    (target / "COMPLETE").touch()
    print(f"saved {target}", flush=True)


if __name__ == "__main__":
    main()
