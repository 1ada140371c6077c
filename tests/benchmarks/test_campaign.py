"""The queue of experiments: its order, its end in time, and the same numbers after it goes on."""

import json
import os
import shlex
import signal
import subprocess
import sys
import tarfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import campaign
import pytest
from campaign import Campaign, Entry, Job, is_complete, read_entries, read_record, shared_gpu, table
from engine_runs import execute, planned
from run_archives import pack
from small_comparison import here, numbers, write_task

from adamplus.lab._compare import split_list
from adamplus.lab._store import write_json
from adamplus.lab.errors import InputError
from adamplus.lab.optimizers import find, parse

ROOT = Path(__file__).parents[2]
QUEUE = ROOT / "benchmarks" / "campaign.toml"


@pytest.fixture
def out(tmp_path: Path) -> Path:
    for name in ("logs", "results"):
        (tmp_path / "out" / name).mkdir(parents=True)
    return tmp_path / "out"


def entry(name: str, code: str, alone: bool = False, after: tuple[str, ...] = ()) -> Entry:
    """An entry that executes some Python in its folder."""
    return Entry(name, f"python -c {shlex.quote(f'import pathlib, sys, time{chr(10)}{code}')}", alone, after)


def noting(name: str, **other: object) -> Entry:
    return entry(name, f"pathlib.Path('order').open('a').write('{name} ')", **other)  # pyright: ignore[reportArgumentType]


def wait_for(holds: Callable[[], bool], seconds: float = 100.0) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end
        time.sleep(0.05)


def test_entries_run_in_their_order_and_once(out: Path):
    entries = [noting("b"), noting("a"), noting("c")]
    Campaign(entries, out, 1, {}).run(100)
    one = Campaign(entries, out, 1, {})
    one.run(100)
    assert (out / "order").read_text() == "b a c "
    assert all(is_complete(each, one.record) for each in entries)
    assert [line.split()[:2] for line in table(entries, one.record).splitlines()[1:]] == [[n, "1/1"] for n in "bac"]
    changed = [noting("b"), entry("a", "raise SystemExit(3)")]
    assert "its command has changed" in table(changed, one.record)
    one = Campaign(changed, out, 1, {})
    one.run(100)
    assert one.failed == ["a"]
    assert read_record(out)["a"]["result"] == "failed (3)"


def test_at_the_deadline_entries_are_interrupted_and_go_on_later(out: Path):
    slow = entry(
        "slow",
        """try:
    while not pathlib.Path("asked").exists(): time.sleep(0.1)
except KeyboardInterrupt:
    time.sleep(0.5)  # it saves its runs
    pathlib.Path("asked").touch()
    sys.exit(130)""",
    )
    one = Campaign([slow, noting("next")], out, 1, {})
    one.run(6.0)
    assert (out / "asked").exists()
    assert read_record(out)["slow"]["result"] == "interrupted"
    assert not (out / "order").exists()
    assert "next" in [line.split()[0] for line in table(one.entries, one.record).splitlines() if "not started" in line]
    again = Campaign([slow, noting("next")], out, 1, {})
    again.run(100)
    assert [again.record[name]["result"] for name in ("slow", "next")] == ["complete", "complete"]
    assert again.record["slow"]["seconds"] > read_record(out)["next"]["seconds"]


def test_entries_wait_for_what_they_need(out: Path):
    fails = entry("fails", "sys.exit(1)")
    one = Campaign([fails, noting("needs", after=("fails",)), noting("other")], out, 3, {})
    one.run(100)
    assert (out / "order").read_text() == "other "
    works = [noting("fails"), noting("needs", after=("fails",))]
    Campaign(works, out, 3, {}).run(100)
    assert (out / "order").read_text() == "other fails needs "


def test_an_entry_that_is_run_alone_needs_the_others_of_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(campaign, "prepare", lambda out: (out / "logs").mkdir(parents=True, exist_ok=True))
    monkeypatch.setattr(signal, "signal", lambda *_: None)  # its handlers would outlive this test
    (tmp_path / "out" / "results").mkdir(parents=True)
    write = "python -c 'import pathlib; pathlib.Path(\\\"b\\\").touch()'"
    (tmp_path / "queue.toml").write_text(
        f'[[entry]]\nname = "a"\ncommand = "true"\n[[entry]]\nname = "b"\ncommand = "{write}"\nafter = ["a"]\n'
    )
    words = ["--out", str(tmp_path / "out"), "--entries", str(tmp_path / "queue.toml"), "--minutes", "1", "--only"]
    assert campaign.main(["run", *words, "b"]) == 0
    assert not (tmp_path / "out" / "b").exists()
    assert "b was not started: it needs a" in capsys.readouterr().out
    assert campaign.main(["run", *words, "a"]) == 0
    assert campaign.main(["run", *words, "b"]) == 0
    assert (tmp_path / "out" / "b").exists()


def test_a_damaged_record_is_reported(out: Path):
    (out / "results" / "campaign.json").write_text('{"a": {"comm')
    with pytest.raises(InputError, match=r"campaign\.json is damaged: .* Restore or remove it"):
        read_record(out)


def test_an_entry_that_does_not_end_is_killed_after_the_others(
    out: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setattr(campaign, "LONGEST_END", 4.0)
    hangs = entry(
        "hangs",
        """import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)
pathlib.Path("waits").touch()
time.sleep(60)""",
    )
    saves = entry(
        "saves",
        """try:
    pathlib.Path("saves").touch()
    time.sleep(60)
except KeyboardInterrupt:
    time.sleep(1)
    pathlib.Path("saved").touch()
    sys.exit(130)""",
    )
    one = Campaign([hangs, saves], out, 2, {})
    thread = threading.Thread(target=one.run, args=(100,))
    thread.start()
    wait_for(lambda: (out / "waits").exists() and (out / "saves").exists())
    one.stop()
    thread.join(30)
    assert not thread.is_alive()
    assert (out / "saved").exists()
    assert [one.record[name]["result"] for name in ("hangs", "saves")] == ["interrupted", "interrupted"]
    assert "hangs: killed, because it did not end within 4 s" in capsys.readouterr().out


def test_nothing_runs_beside_an_entry_that_is_timed(out: Path):
    times = "pathlib.Path(NAME).write_text(repr(time.time())); time.sleep(1); pathlib.Path(NAME + '.end').touch()"
    codes = {name: times.replace("NAME", repr(name)) for name in "abc"}
    one = Campaign([entry("a", codes["a"]), entry("b", codes["b"], alone=True), entry("c", codes["c"])], out, 3, {})
    one.run(100)
    for first, second in ("ab", "bc"):
        assert (out / f"{first}.end").stat().st_mtime <= float((out / second).read_text())


class Comparison(Entry):
    """An entry that writes a comparison of three runs, of which two have ended, and waits for a file."""

    def words(self, workers: int) -> list[str]:
        code = f"""
import sys, time
from pathlib import Path
from adamplus.lab._store import write_json
out = Path({str(self.stores[0])!r})
for i in range(3):
    (out / f"runs/{{i}}").mkdir(parents=True, exist_ok=True)
    if i < 2:
        write_json(out / f"runs/{{i}}/end.json", {{"status": "finished"}})
write_json(out / "comparison.json", {{"tune": 0, "chosen": {{}}, "runs": [f"runs/{{i}}" for i in range(3)]}})
Path("{self.name}.workers").write_text("{workers}")
while not Path("go").exists(): time.sleep(0.05)
write_json(out / "runs/2/end.json", {{"status": "finished"}})"""
        return [sys.executable, "-c", code]


def test_the_next_entry_starts_when_an_entry_needs_fewer_workers(out: Path):
    first, same, other = (Comparison(n, f"adamplus compare x.py --out results/{o}") for n, o in ("aa", "ba", "cc"))
    one = Campaign([first, same, other], out, 3, {})
    thread = threading.Thread(target=one.run, args=(200,))
    thread.start()
    try:
        wait_for((out / "c.workers").exists)
        assert (out / "a.workers").read_text() == "3"
        assert (out / "c.workers").read_text() == "2"  # one of the first entry's runs still trains
        assert not (out / "b.workers").exists()  # it would write to the folder of the first one
    finally:
        (out / "go").touch()
        thread.join()
    assert [one.record[name]["finished"] for name in "abc"] == [3, 3, 3]


def test_an_entry_keeps_its_workers_until_its_last_runs_are_known(tmp_path: Path):
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    command = "adamplus reproduce wikitext2 --choose-after 6 --out r"
    job = Job(Entry("a", command), 3, tmp_path, process, began=0.0)
    grid, final = (tmp_path / store for store in job.entry.stores)
    assert (grid.parent.name, final.parent.name) == ("paper-6-epochs", "paper")
    assert job.busy_workers() == 3

    def write(store: Path, **other: object) -> None:
        store.mkdir(parents=True, exist_ok=True)
        write_json(store / "comparison.json", {"tune": 0, "chosen": {}, "runs": ["runs/1"], **other})

    write(grid)
    (grid / "runs" / "1").mkdir(parents=True)
    write_json(grid / "runs" / "1" / "end.json", {"status": "finished"})
    assert job.busy_workers() == 3  # the runs with the choice are not planned yet
    write(final, tune=2)
    assert job.busy_workers() == 3  # a search, whose final runs are not planned yet
    write(final, tune=2, chosen={"x": {}})
    assert (job.counts(), job.busy_workers()) == ((1, 2), 1)
    job.began = time.time() + 100
    assert job.busy_workers() == 3  # comparisons of an earlier call


def test_a_campaign_goes_on_to_the_same_numbers_and_its_archive_is_merged(tmp_path: Path):
    hook = """if epoch == 2 and not Path(__file__ + ".waits").exists():
            Path(__file__ + ".waits").touch()
            __import__("time").sleep(100)"""
    task = write_task(tmp_path / "plane.py", hook)
    command = f"adamplus compare {task} --out results/toy --tune 2 --seeds 1 --optimizers sgd,adam --device cpu"
    (tmp_path / "queue.toml").write_text(f'[[entry]]\nname = "toy"\ncommand = "{command}"\n')
    archives = tmp_path / "archives"
    call = [sys.executable, str(ROOT / "benchmarks" / "campaign.py")]
    where = ["--out", str(tmp_path / "out"), "--entries", str(tmp_path / "queue.toml")]
    words = [*call, "run", *where, "--minutes", "5", "--workers", "2", "--archive", str(archives)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    started = subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    wait_for((tmp_path / "plane.py.waits").exists)
    started.send_signal(signal.SIGINT)  # as at the deadline
    output, _ = started.communicate(timeout=100)
    assert started.returncode == 0, output
    assert output.splitlines()[-1].split()[::3] == ["toy", "interrupted"]
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=200, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1].split()[:2] == ["toy", "6/6"]
    assert done.stdout.splitlines()[-1].endswith("complete")
    execute(here, planned(task, "sgd", seeds=1), tmp_path / "undisturbed")
    stored = numbers(tmp_path / "out" / "results" / "toy")
    trials = {name: lines for name, lines in stored.items() if "search" in name}
    assert (len(stored), len(trials)) == (6, 4)
    merged = campaign.main(["merge", *map(str, archives.iterdir()), "--into", str(tmp_path / "into")])
    assert (merged, numbers(tmp_path / "into" / "toy")) == (0, stored)
    whole = [sys.executable, "-m", "adamplus.cli", *shlex.split(command.replace("results/toy", "whole"))[1:]]
    subprocess.run(whole, cwd=tmp_path, env=environment, check=True, capture_output=True)
    assert numbers(tmp_path / "whole") == stored


def test_status_prints_what_is_missing(out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    (tmp_path / "queue.toml").write_text(
        '[[entry]]\nname = "a"\ncommand = "true"\n[[entry]]\nname = "b"\ncommand = "x"\n'
    )
    write_json(
        out / "results" / "campaign.json",
        {
            "a": {
                "command": "true",
                "complete": False,
                "result": "interrupted",
                "finished": 2,
                "wanted": 7,
                "seconds": 9,
            }
        },
    )
    assert campaign.main(["status", "--out", str(out), "--entries", str(tmp_path / "queue.toml")]) == 0
    assert [line.split() for line in capsys.readouterr().out.splitlines()] == [
        ["entry", "runs", "seconds", "result"],
        ["a", "2/7", "9", "interrupted"],
        ["b", "–", "0", "not", "started"],
    ]


def test_mps_is_started_and_ended(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    control = tmp_path / "nvidia-cuda-mps-control"
    control.write_text(f'#!/bin/sh\necho "$CUDA_MPS_PIPE_DIRECTORY:$1:$(cat)" >> {tmp_path}/calls\n')
    control.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    with shared_gpu(tmp_path) as environment:
        assert environment == {}  # there is no GPU
    monkeypatch.setattr("torch.cuda.is_available", lambda: True)

    def fail() -> None:
        with shared_gpu(tmp_path) as environment:
            assert Path(environment["CUDA_MPS_PIPE_DIRECTORY"]).is_dir()
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        fail()
    calls = [line.split(":")[1:] for line in (tmp_path / "calls").read_text().splitlines()]
    assert calls == [["", "quit"], ["-d", ""], ["", "quit"]]
    control.write_text("#!/bin/sh\nexit 1\n")
    with pytest.raises(InputError, match="cannot be started"), shared_gpu(tmp_path):
        pass


def test_every_entry_of_the_queue_is_a_command():
    entries = read_entries(QUEUE)
    assert len({one.command for one in entries}) == len(entries)
    for one in entries:
        program, verb, *words = shlex.split(one.command)
        if verb in ("compare", "reproduce"):
            assert one.stores
            assert all(store.parts[0] == "results" for store in one.stores)
            assert "cuda" in one.command
        if verb == "compare":
            for label in split_list(words[words.index("--optimizers") + 1]):
                find(parse(label)[0])
        else:
            assert (program, verb) in {
                ("adamplus", "reproduce"),
                ("adamplus", "bench"),
                ("python", "benchmarks/defaults.py"),
                ("env", "TRITON_INTERPRET=0"),
            }


def test_an_entry_is_called_once_and_comes_after_what_it_needs(tmp_path: Path):
    for text, message in (
        ('[[entry]]\nname = "a"\ncommand = "x"\n' * 2, "two entries called 'a'"),
        ('[[entry]]\nname = "a"\ncommand = "x"\nafter = ["b"]\n', "'a' comes before b, which it needs"),
    ):
        (tmp_path / "queue.toml").write_text(text)
        with pytest.raises(InputError, match=message):
            read_entries(tmp_path / "queue.toml")


def test_the_folder_of_a_campaign_looks_like_the_repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tree = tmp_path / "tree"
    (tree / "results").mkdir(parents=True)
    (tree / "benchmarks").mkdir()
    (tree / "results" / "a.json").write_text("1")
    monkeypatch.setattr(campaign, "TREE", tree)
    campaign.prepare(tmp_path / "out")
    (tmp_path / "out" / "results" / "a.json").write_text("2")
    (tree / "results" / "b.json").write_text("3")
    campaign.prepare(tmp_path / "out")
    texts = [(tmp_path / "out" / "results" / name).read_text() for name in ("a.json", "b.json")]
    assert texts == ["2", "3"]  # its own results are kept
    (tree / "results" / "b.json").write_text("4")
    assert pack(tmp_path / "out" / "results", tree / "results", tmp_path / "x", campaign.read_copied(tmp_path / "out"))
    with tarfile.open(next((tmp_path / "x").iterdir())) as archive:
        assert archive.getnames() == ["SHA256SUMS", "a.json"]  # the tree's b.json is newer than the copy
    campaign.prepare(tmp_path / "out")
    texts = [(tmp_path / "out" / "results" / name).read_text() for name in ("a.json", "b.json")]
    assert texts == ["2", "4"]
    assert (tmp_path / "out" / "benchmarks").resolve() == tree / "benchmarks"
    assert json.loads((tree / "results" / "a.json").read_text()) == 1
