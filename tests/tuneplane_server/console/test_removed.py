"""What a project's retention has removed of a run is said where one looks for it."""

from __future__ import annotations

from tests.tuneplane_server.console.conftest import Browser
from tests.tuneplane_server.harness import Harness
from tests.tuneplane_server.telemetry.build import log, sample
from tuneplane_server.domain.classify import Exit
from tuneplane_server.features.retention.views import RetentionValue
from tuneplane_server.features.telemetry.records import Batch


async def test_a_page_says_what_is_gone_and_keeps_quiet_about_the_rest(site: Harness, visitor: Browser) -> None:
    ada = await site.user("ada")
    await site.bring_package(ada)
    job = await site.running_job(ada)
    await site.services.telemetry.store(job, 1, Batch([log(1, "line\n")], [], [sample(1, "text")]))
    await site.write_outcome(job)
    site.scripted.containers[job, 1].exit = Exit(False, 0)
    await site.round(3)
    await site.services.retention.set(ada, "ada", "lab", RetentionValue(logs_days=1), 0)
    site.time.pass_(2 * 86400)
    await site.loop("retainer").tick()
    await site.loop("retainer").idle()

    await visitor.become(site.services, ada)
    said = "retention has removed these"
    pages = [(await visitor.get(f"/jobs/{job}{tab}")).text for tab in ("", "/logs", "/samples")]
    assert [said in page for page in pages] == [False, True, False]
    assert "保留" in (await visitor.get(f"/jobs/{job}/logs", language="zh-CN")).text
