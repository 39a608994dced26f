"""A script that knows nothing of the platform: what it logs in its own way is a curve in the console."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.e2e.harness import Client

pytestmark = pytest.mark.timeout(300)
# verl's file logger writes such lines; the number of steps is what is counted.
SCRIPT = """
set -eu
for step in 1 2 3 4 5; do
  printf '{"step":%s,"data":{"actor/pg_loss":0.%s,"critic/score/mean":null}}\\n' $step $step >> "$TUNEPLANE_OUT_DIR/metrics.jsonl"
  echo "key $WANDB_API_KEY"
done
"""


def test_lines_of_json_in_the_out_dir_become_metrics_and_secrets_are_redacted(
    start_client: Callable[..., Client],
) -> None:
    client = start_client()
    (client.new("foreign", "custom/custom") / "train.sh").write_text(SCRIPT)
    url = ("--observability-url", "https://curves.example.org/run")
    run = client.submit("foreign", *url, "--env", "WANDB_API_KEY=0123456789abcdef")
    assert client.wait(run)["phase"] == "succeeded"
    metrics = client.tp("job", "metrics", run, "--json").json["metrics"]
    assert metrics["raw/actor/pg_loss"]["count"] == 5
    assert metrics["raw/actor/pg_loss"]["latest"]["value"] == 0.5
    assert metrics["raw/critic/score/mean"]["latest"]["value"] == "NaN"
    logs = client.tp("job", "logs", run, "--no-follow").out
    assert logs.count("key [redacted:WANDB_API_KEY]") == 5
    assert "0123456789abcdef" not in logs
