"""One suite for every runtime: what `process`, `docker` and `podman` must do alike."""

from __future__ import annotations

import asyncio
import sys
import textwrap

import pytest

from tests.tuneplane_node.bench import Bench, command_lines, is_held, until_told
from tuneplane_node.engine import LABEL_ATTEMPT, LABEL_INSTANCE, LABEL_JOB, Mount, NodeError


async def test_launching_twice_gives_one_container(bench: Bench) -> None:
    request = bench.request(f"echo run >>{bench.directory}/runs; {bench.waiting_job()}")
    first = await bench.engine.launch(request)
    await bench.exists("ready")
    second = await bench.new_engine().launch(request)
    bench.let_go()
    await bench.ended(first)
    third = await bench.engine.launch(request)
    assert first == second == third
    assert (await bench.engine.observe(first)).state == "exited"
    assert (bench.directory / "runs").read_text() == "run\n"
    assert [container.name for container in await bench.engine.owned()] == [first.name]


async def test_launching_at_the_same_time_gives_one_container(bench: Bench) -> None:
    request = bench.request(f"echo run >>{bench.directory}/runs; {bench.waiting_job()}")
    handles = await asyncio.gather(*(bench.engine.launch(request) for _ in range(5)))
    await bench.exists("ready")
    bench.let_go()
    await bench.ended(handles[0])
    assert len(set(handles)) == 1
    assert (bench.directory / "runs").read_text() == "run\n"


async def test_a_job_is_seen_from_its_start_to_its_removal(bench: Bench) -> None:
    assert (await bench.engine.observe(bench.handle())).state == "absent"
    handle = await bench.launch(bench.waiting_job(7))
    running = await bench.engine.observe(handle)
    assert running.state == "running"
    assert running.started_at is not None
    assert running.exit_code is None
    bench.let_go()
    ended = await bench.ended(handle)
    assert (ended.exit_code, ended.signal, ended.oom_killed) == (7, None, False)
    assert ended.finished_at is not None
    assert ended.finished_at >= running.started_at
    assert await bench.engine.cleanup(handle)
    assert (await bench.engine.observe(handle)).state == "absent"
    assert await bench.engine.owned() == []


@pytest.mark.parametrize(("script", "code", "signal"), [
    ("exit 0", 0, None),
    ("exit 255", 255, None),
    ("sh -c 'kill -KILL $$'; exit $?", 137, 9),
    ("sh -c 'kill -SEGV $$'; exit $?", 139, 11),
])  # fmt: skip
async def test_how_it_ended_is_told(bench: Bench, script: str, code: int, signal: int | None) -> None:
    ended = await bench.ended(await bench.launch(script))
    if code == 255 and bench.runtime == "docker":  # what Docker says as well when it does not know
        assert (ended.exit_code, ended.signal) == (None, None)
        assert "255" in ended.detail
    else:
        assert (ended.exit_code, ended.signal) == (code, signal)


async def test_a_polite_job_ends_by_itself_when_stopped(bench: Bench) -> None:
    handle = await bench.launch(f"trap 'exit 3' TERM; touch {bench.directory}/ready; while :; do sleep 0.05; done")
    await bench.exists("ready")
    await bench.engine.stop(handle, 30)
    assert (await bench.engine.observe(handle)).exit_code == 3


async def test_a_job_that_ignores_the_signal_is_killed_with_all_its_descendants(bench: Bench) -> None:
    fifo = bench.fifo("held")
    escaped = (
        f"setsid sh -c 'trap \"\" TERM HUP; exec 3<>{fifo}; touch {bench.directory}/ready; while :; do sleep 1; done'"
    )
    handle = await bench.launch(f"trap '' TERM; ({escaped} &); while :; do sleep 1; done")
    await bench.exists("ready")
    assert is_held(fifo)
    await bench.engine.stop(handle, 0.2)
    ended = await bench.engine.observe(handle)
    assert (ended.state, ended.exit_code, ended.signal) == ("exited", 137, 9)
    assert not is_held(fifo)


async def test_what_the_first_process_leaves_behind_ends_with_it(bench: Bench) -> None:
    fifo = bench.fifo("held")
    escaped = f"setsid sh -c 'exec 3<>{fifo}; touch {bench.directory}/ready; while :; do sleep 1; done'"
    handle = await bench.launch(f"({escaped} &); while [ ! -e {bench.directory}/ready ]; do sleep 0.02; done; exit 4")
    ended = await bench.ended(handle)
    assert ended.exit_code == 4
    assert not is_held(fifo)


async def test_killing_ends_it_at_once_and_may_be_repeated(bench: Bench) -> None:
    handle = await bench.launch(bench.waiting_job())
    await bench.exists("ready")
    await bench.engine.kill(handle)
    assert (await bench.engine.observe(handle)).exit_code == 137
    await bench.engine.kill(handle)
    await bench.engine.stop(handle, 5)
    assert (await bench.engine.observe(handle)).exit_code == 137


async def test_stopping_and_removing_what_is_not_there_is_fine(bench: Bench) -> None:
    await bench.engine.stop(bench.handle(), 1)
    await bench.engine.kill(bench.handle())
    assert await bench.engine.cleanup(bench.handle())
    assert await bench.engine.logs(bench.handle()) == b""


async def test_removing_a_running_job_ends_it_and_its_name_is_free_again(bench: Bench) -> None:
    fifo = bench.fifo("held")
    handle = await bench.launch(f"exec 3<>{fifo}; touch {bench.directory}/ready; while :; do sleep 1; done")
    await bench.exists("ready")
    assert await bench.engine.cleanup(handle)
    assert not is_held(fifo)
    assert (await bench.engine.observe(handle)).state == "absent"
    again = await bench.launch("exit 6")
    assert (await bench.ended(again)).exit_code == 6


async def test_environment_values_arrive_as_they_are(bench: Bench) -> None:
    odd = {
        "EMPTY": "",
        "EQUALS": "a=b=c",
        "QUOTES": """it's "so" `called` $HOME""",
        "LINES": "one\ntwo\n\nfour",
        "SPACES": "  a  b ",
        "UNICODE": "训练 🚀",
        "BACKSLASH": "C:\\n\\0",
        "LONG": "x" * 100_000,
    }
    handle = await bench.launch(f"env -0 >{bench.directory}/environment", env=odd)
    assert (await bench.ended(handle)).exit_code == 0
    text = (bench.directory / "environment").read_text()
    seen = dict(entry.split("=", 1) for entry in text.split("\0") if entry)
    assert {key: seen.get(key) for key in odd} == odd


async def test_arguments_arrive_as_they_are(bench: Bench) -> None:
    words = ["a b", "", "it's", "two\nlines", '"', "$HOME", "*"]
    command = ["sh", "-c", f'printf "%s\\0" "$@" >{bench.directory}/words', "sh", *words]
    handle = await bench.launch("", command=command)
    assert (await bench.ended(handle)).exit_code == 0
    assert (bench.directory / "words").read_text().split("\0")[:-1] == words


async def test_a_secret_in_the_environment_is_in_no_command_line_and_no_file(bench: Bench) -> None:
    secret = "s3cr3t-0fb1c2"
    handle = await bench.launch(bench.waiting_job(), env={"TUNEPLANE_INGEST_TOKEN": secret})
    await bench.exists("ready")
    assert [pid for pid, words in command_lines() if secret in words] == []
    written = [
        path for path in bench.state_root.rglob("*") if path.is_file() and secret in path.read_text(errors="replace")
    ]
    assert written == []
    assert secret not in repr(bench.request("", env={"TOKEN": secret}))
    await bench.engine.kill(handle)


async def test_output_can_be_read_while_it_runs_and_after(bench: Bench) -> None:
    handle = await bench.launch(f"echo out; echo err >&2; {bench.waiting_job()}")
    await bench.exists("ready")
    await until_told(lambda: bench.engine.logs(handle), lambda text: b"out\n" in text and b"err\n" in text)
    bench.let_go()
    await bench.ended(handle)
    text = await until_told(lambda: bench.engine.logs(handle, 5), lambda text: len(text) == 5)
    assert text in (b"\nerr\n", b"\nout\n")


async def test_only_the_end_of_much_output_is_read(bench: Bench) -> None:
    handle = await bench.launch("i=0; while [ $i -lt 20000 ]; do echo line $i; i=$((i+1)); done")
    await bench.ended(handle)
    text = await until_told(lambda: bench.engine.logs(handle, 1000), lambda text: text.endswith(b"line 19999\n"))
    assert len(text) == 1000


async def test_a_new_engine_adopts_what_an_earlier_one_started(bench: Bench) -> None:
    """Scenario 4: whoever launched it may stop at any time."""
    handle = await bench.launch(bench.waiting_job(5))
    await bench.exists("ready")
    await bench.engine.close()
    later = bench.new_engine()
    (found,) = await later.owned()
    assert found.handle == handle
    assert found.labels[LABEL_JOB] == "0123456789abcdef"
    assert found.labels[LABEL_ATTEMPT] == "1"
    assert (await later.observe(handle)).state == "running"
    bench.let_go()
    assert (await bench.ended(handle, later)).exit_code == 5


async def test_a_job_outlives_the_sudden_death_of_its_launcher(bench: Bench) -> None:
    script = textwrap.dedent(f"""
        import asyncio, sys
        from pathlib import Path
        from tuneplane_node.engine import Engine
        async def main():
            engine = Engine({bench.instance!r}, Path({str(bench.state_root)!r}), **{bench.engine_options()!r})
            from tuneplane_node.engine import LaunchRequest, Mount
            directory = {str(bench.directory)!r}
            handle = await engine.launch(LaunchRequest(
                name={bench.name()!r}, image={bench.image!r}, mounts=[Mount(directory, directory)],
                labels={{"tuneplane.job": "j", "tuneplane.attempt": "1"}}, command=["sh", "-c", {bench.waiting_job(9)!r}],
            ))
            print(handle, flush=True)
            await asyncio.Event().wait()
        asyncio.run(main())
    """)
    launcher = await asyncio.create_subprocess_exec(sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE)
    assert launcher.stdout is not None
    assert (await launcher.stdout.readline()).decode() == f"{bench.handle()}\n"
    launcher.kill()
    await launcher.wait()
    await bench.exists("ready")
    (found,) = await bench.engine.owned()
    assert (await bench.engine.observe(found.handle)).state == "running"
    bench.let_go()
    assert (await bench.ended(found.handle)).exit_code == 9


async def test_a_name_that_another_job_has_is_refused(bench: Bench) -> None:
    handle = await bench.launch(bench.waiting_job())
    await bench.exists("ready")
    other = bench.request("exit 0", labels={LABEL_JOB: "another", LABEL_ATTEMPT: "1"})
    with pytest.raises(NodeError) as refusal:
        await bench.engine.launch(other)
    assert refusal.value.code == "name-conflict"
    assert (await bench.engine.observe(handle)).state == "running"
    await bench.engine.kill(handle)


async def test_two_consoles_on_one_machine_leave_each_other_alone(bench: Bench) -> None:
    handle = await bench.launch(bench.waiting_job())
    await bench.exists("ready")
    stranger = bench.new_engine("another-console")
    assert await stranger.owned() == []
    assert (await stranger.observe(handle)).state == "absent"
    with pytest.raises(NodeError) as refusal:
        await stranger.launch(bench.request("exit 0"))
    assert refusal.value.code == "name-conflict"
    await stranger.kill(handle)
    await stranger.cleanup(handle)
    assert (await bench.engine.observe(handle)).state == "running"
    (found,) = await bench.engine.owned()
    assert found.labels[LABEL_INSTANCE] == bench.instance
    await bench.engine.kill(handle)


async def test_a_command_that_is_not_there_is_told(bench: Bench) -> None:
    request = bench.request("", command=["no-such-command"])
    try:
        handle = await bench.engine.launch(request)
    except NodeError as refusal:
        assert refusal.code == "command-not-found"  # noqa: PT017 - an init hides it from Docker, which then tells 127
        assert await bench.engine.owned() == []
    else:
        assert (await bench.ended(handle)).exit_code == 127


async def test_a_mount_that_is_not_there_is_told_and_leaves_nothing(bench: Bench) -> None:
    missing = str(bench.directory / "not-there")
    with pytest.raises(NodeError) as refusal:
        await bench.launch("exit 0", mounts=[Mount(missing, missing)])
    assert refusal.value.code == "mount-missing"
    assert await bench.engine.owned() == []


async def test_it_runs_in_the_working_directory(bench: Bench) -> None:
    handle = await bench.launch("pwd >here", workdir=str(bench.directory))
    assert (await bench.ended(handle)).exit_code == 0
    assert (bench.directory / "here").read_text().strip() == str(bench.directory)


async def test_invented_cards_reach_the_job_as_indexes_and_no_real_card_does(bench: Bench) -> None:
    engine = bench.new_engine(simulated_gpus="h200:8")
    report = f'echo "[$TUNEPLANE_VISIBLE_SIMULATED_GPUS][$CUDA_VISIBLE_DEVICES]" >>{bench.directory}/cards'
    await bench.ended(await engine.launch(bench.request(report, "a", gpus=(2, 5))))
    await bench.ended(await engine.launch(bench.request(report, "b")))
    assert (bench.directory / "cards").read_text() == "[2,5][]\n[][]\n"


async def test_user_environment_cannot_take_a_card(bench: Bench) -> None:
    request = bench.request(f"echo [$CUDA_VISIBLE_DEVICES] >{bench.directory}/cards", env={"CUDA_VISIBLE_DEVICES": "0"})
    await bench.ended(await bench.engine.launch(request))
    assert (bench.directory / "cards").read_text() == "[]\n"


async def test_a_card_that_the_node_has_not_is_refused(bench: Bench) -> None:
    with pytest.raises(NodeError) as refusal:
        await bench.new_engine(simulated_gpus="h200:8").launch(bench.request("exit 0", gpus=(8,)))
    assert refusal.value.code == "gpu-unknown"


async def test_what_a_running_job_uses_is_measured_and_an_ended_one_uses_nothing(bench: Bench) -> None:
    work = bench.directory / "work"
    burn = "i=0; while [ $i -lt 150000 ]; do i=$((i+1)); done"
    handle = await bench.launch(
        f"touch {bench.directory}/begun; while [ ! -e {work} ]; do sleep 0.02; done; {burn}; {bench.waiting_job()}"
    )
    await bench.exists("begun")
    (before,) = (await bench.engine.sample()).jobs
    assert before.labels[LABEL_JOB] == bench.request("true").labels[LABEL_JOB]
    assert before.figures["memory_used"] > 0
    assert "cpu" not in before.figures, "a rate needs two looks"
    work.touch()
    await bench.exists("ready")
    (after,) = (await bench.engine.sample()).jobs
    assert after.figures["cpu"] > 0
    bench.let_go()
    await bench.ended(handle)
    assert (await bench.engine.sample()).jobs == ()
