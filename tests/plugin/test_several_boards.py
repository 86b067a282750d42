"""Several boards in one test, and one test on several boards."""

from __future__ import annotations

import json
import socket
import sys
import threading
import time
from contextlib import ExitStack
from pathlib import Path

import pytest
from fake_bench import Bench
from firmware_app import build_app
from plugin_suite import FIVE, dense_model, pairs, properties, run, run_on_bench
from waiting import PATIENCE_S

from hil.errors import DeviceError, InputError
from hil.lab.pool import Pool, acquire_all, open_pool

#: Three emulated boards, each of which is locked as one that exists.
BENCH = """
[boards.a]
board = "mps2-an386"
[boards.b]
board = "mps2-an386"
[boards.c]
board = "mps2-an385"
"""


@pytest.fixture(autouse=True)
def locks(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another test run on this machine may use boards of these names."""
    monkeypatch.setenv("HIL_LOCKS", str(tmp_path_factory.mktemp("locks")))


def dead_port() -> str:
    """A URL at which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        return f"socket://127.0.0.1:{server.getsockname()[1]}"


@pytest.fixture
def bench_suite(suite: pytest.Pytester) -> pytest.Pytester:
    (suite.path / "hil-bench.toml").write_text(BENCH)
    return suite


def run_apart(suite: pytest.Pytester, *options: str) -> pytest.RunResult:
    """Run the suite in a process of its own."""
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rs", *options]
    return suite.run(*command, timeout=300)


# -- several boards in one test ----------------------------------------------------------------


def test_two_boards_run_models(bench_suite: pytest.Pytester) -> None:
    bench_suite.makepyfile(
        """
        import pytest

        @pytest.mark.hil_boards("b@bench", "a@bench")
        def test_it(hil_boards):
            first, second = hil_boards
            assert (first.name, second.name) == ("b@bench", "a@bench")
            one, two = (board.open("models/tiny.tflite") for board in hil_boards)
            one["tiny"].run()
            two["tiny"].run()
        """
    )
    result = run(bench_suite, "-v", "--junit-xml=out.xml", "--hil-log=logs")
    result.assert_outcomes(passed=1)
    result.stdout.fnmatch_lines(["*::test_it[[]b@bench+a@bench[]] PASSED*"])
    junit = bench_suite.path / "out.xml"
    assert properties(junit, "hil_board") == ["b@bench, a@bench"]
    assert properties(junit, "hil_core") == ["cortex-m4, cortex-m4"]
    assert properties(junit, "hil_runner") == ["qemu, qemu"]
    assert len(list((bench_suite.path / "logs").glob("*.log"))) == 2


def test_one_selector_gives_different_boards(bench_suite: pytest.Pytester) -> None:
    bench_suite.makepyfile(
        """
        import pytest

        @pytest.mark.hil_boards("board=mps2-an386@bench", "board=mps2-an386@bench")
        def test_same(hil_boards):
            assert {board.name for board in hil_boards} == {"a@bench", "b@bench"}

        @pytest.mark.hil_boards("a@bench", "a@bench")
        def test_one_board(hil_boards):
            pass

        @pytest.mark.hil_boards("a@bench", "x@bench")
        def test_unknown(hil_boards):
            pass
        """
    )
    result = run(bench_suite)
    result.assert_outcomes(passed=1, errors=2)
    result.stdout.fnmatch_lines(["*has no board 'x'*"])
    # Those that are selected limit it.
    run(bench_suite, "--hil-board=ram>=1K@bench").assert_outcomes(passed=1, errors=1, skipped=1)
    result = run(bench_suite, "--hil-board=a@bench")
    result.assert_outcomes(errors=1, skipped=2)
    result.stdout.fnmatch_lines(["SKIPPED*the test is for a@bench, x@bench; selected: a@bench"])


def test_a_count_takes_any_boards(bench_suite: pytest.Pytester) -> None:
    bench_suite.makepyfile(
        """
        import pytest

        @pytest.mark.hil_boards(3)
        def test_any(hil_boards):
            assert {board.name for board in hil_boards} == {"a@bench", "b@bench", "c@bench"}

        @pytest.mark.hil_boards(4)
        def test_too_many(hil_boards):
            pass
        """
    )
    result = run(bench_suite, "--hil-board=ram>=1K@bench")
    result.assert_outcomes(passed=1, errors=1)
    result.stdout.fnmatch_lines(["*4 different boards are needed where only 3 can be chosen*"])


def test_emulated_boards_need_no_bench(pytester: pytest.Pytester) -> None:
    app = build_app("console_app", pytester.path)
    pytester.makepyfile(
        f"""
        import pytest

        @pytest.mark.hil_boards("mps2-an386", "mps2-an386")
        def test_it(hil_boards):
            one, two = (board.open_elf({str(app)!r}).console for board in hil_boards)
            one.send("1\\n")
            two.send("2\\n")
            assert one.expect(r"clamped: (\\d+)\\n", 60)[1] == "1"
            assert two.expect(r"clamped: (\\d+)\\n", 60)[1] == "2"
        """
    )
    run(pytester, "--hil-log=logs").assert_outcomes(passed=1)
    texts = [path.read_text() for path in sorted((pytester.path / "logs").iterdir())]
    assert ["> 1\n" in text for text in texts] == [True, False]
    assert ["> 2\n" in text for text in texts] == [False, True]


@pytest.mark.parametrize(
    ("marker", "fixtures", "problem"),
    [
        ("", "hil_boards", "needs @pytest.mark.hil_boards"),
        ("@pytest.mark.hil_boards()", "hil_boards", "hil_boards(): the marker is"),
        ("@pytest.mark.hil_boards(0)", "hil_boards", "hil_boards(0): the marker is"),
        ("@pytest.mark.hil_boards('a', x=1)", "hil_boards", "the marker is"),
        ("@pytest.mark.hil_boards(2)", "hil_boards, hil_board", "drop hil_board"),
        ("@pytest.mark.hil_boards(2)", "hil_boards, hil_open", "drop hil_open"),
    ],
)
def test_a_wrong_marker(
    pytester: pytest.Pytester, marker: str, fixtures: str, problem: str
) -> None:
    pytester.makepyfile(
        f"import pytest\n{marker}\ndef test_it({fixtures}): pass\ndef test_other(): pass"
    )
    result = run(pytester)
    result.assert_outcomes(errors=1, passed=1)
    assert problem in result.stdout.str()


def test_workers_that_take_them_in_opposite_order(bench_suite: pytest.Pytester) -> None:
    bench_suite.makepyfile(
        """
        import json
        import time

        import pytest

        def use(boards):
            begin = time.monotonic()
            time.sleep(0.2)
            with open("uses", "a") as file:
                for board in boards:
                    file.write(json.dumps([board.name, begin, time.monotonic()]) + "\\n")

        @pytest.mark.parametrize("job", range(4))
        @pytest.mark.hil_boards("a@bench", "b@bench")
        def test_one(hil_boards, job):
            use(hil_boards)

        @pytest.mark.parametrize("job", range(4))
        @pytest.mark.hil_boards("b@bench", "a@bench")
        def test_other(hil_boards, job):
            use(hil_boards)

        @pytest.mark.parametrize("job", range(4))
        @pytest.mark.hil(boards=["a@bench"])
        def test_alone(hil_board, job):
            time.sleep(0.1)
        """
    )
    run_apart(bench_suite, "-n2").assert_outcomes(passed=12)
    uses = [json.loads(line) for line in (bench_suite.path / "uses").read_text().splitlines()]
    assert len(uses) == 16
    for name in ("a@bench", "b@bench"):
        times = sorted((begin, end) for board, begin, end in uses if board == name)
        assert all(end <= begin for (_, end), (begin, _) in zip(times, times[1:], strict=False))


def test_a_lost_board_fails_its_own_tests(suite: pytest.Pytester) -> None:
    text = f'{BENCH}[boards.dead]\nboard = "native"\nport = "{dead_port()}"\n'
    (suite.path / "hil-bench.toml").write_text(text)
    suite.makepyfile(
        """
        import pytest

        MODEL = "models/tiny.tflite"

        @pytest.mark.hil_boards("a@bench", "dead@bench")
        def test_lost(hil_boards):
            for board in hil_boards:
                board.open(MODEL)

        @pytest.mark.hil_boards("dead@bench", "b@bench")
        def test_lost_again(hil_boards):
            pass

        @pytest.mark.hil_boards("b@bench", "a@bench")
        def test_others(hil_boards):
            for board in hil_boards:
                board.open(MODEL)["tiny"].run()
        """
    )
    result = run_apart(suite, "--hil-retries=1")
    result.assert_outcomes(failed=1, errors=1, passed=1)
    result.stdout.fnmatch_lines(
        [
            "*hil: boards set aside*",
            "dead@bench: *nothing listens*",
            "*hil: boards that failed*",
        ]
    )


# -- the boards of pools -----------------------------------------------------------------------


@pytest.fixture
def names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "hil-bench.toml").write_text(BENCH)
    monkeypatch.chdir(tmp_path)


def pools_of(*specs: str) -> list[Pool]:
    pools = [open_pool(spec, run=f"of {specs}") for spec in specs]
    assert all(pools)
    return [pool for pool in pools if pool is not None]


@pytest.mark.usefixtures("names")
def test_two_users_never_wait_for_each_other() -> None:
    done: list[str] = []

    def user(*specs: str) -> None:
        pools = pools_of(*specs)
        for _ in range(10):
            units = acquire_all(pools, PATIENCE_S)
            time.sleep(0.005)
            for unit in units:
                unit.release()
        done.append(specs[0])

    orders = (("a@bench", "b@bench", "c@bench"), ("c@bench", "b@bench", "a@bench"))
    threads = [threading.Thread(target=user, args=order) for order in orders]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE_S)
    assert sorted(done) == ["a@bench", "c@bench"]


@pytest.mark.usefixtures("names")
def test_none_is_held_while_one_is_awaited() -> None:
    a, b = pools_of("a@bench", "b@bench")
    (other,) = pools_of("b@bench")
    held = other.acquire(1.0)
    with pytest.raises(DeviceError, match="2 boards did not become free at the same time"):
        acquire_all([a, b], 0.3)
    free = a.acquire(1.0)
    free.release()
    held.release()
    for unit in acquire_all([a, b], PATIENCE_S):
        unit.release()


@pytest.mark.usefixtures("names")
@pytest.mark.parametrize("attempt", range(5))
def test_a_board_of_two_pools_is_given_once(attempt: int) -> None:
    """The wider selection leaves the board that the narrower one needs."""
    pools = pools_of("arch=armv7e-m@bench", "a@bench", "ram>=1K@bench")
    units = acquire_all(pools, PATIENCE_S)
    with ExitStack() as stack:
        for unit in units:
            stack.callback(unit.release)
        assert [unit.name for unit in units] == ["b@bench", "a@bench", "c@bench"]


@pytest.mark.usefixtures("names")
def test_more_boards_than_there_are() -> None:
    (pool,) = pools_of("a@bench")
    with pytest.raises(InputError, match="2 different boards are needed where only 1"):
        acquire_all([pool, pool], 0.1)


# -- one test on several boards ----------------------------------------------------------------

OPEN = """
    import pytest

    @pytest.fixture(scope="module")
    def device(hil_open):
        with open("opened", "a") as file:
            file.write("x")
        return hil_open("models/tiny.tflite")

    def test_one(device):
        device["tiny"].run()

    def test_two(device, hil_board):
        device["tiny"].run()
        assert device.board == hil_board.name

    @pytest.mark.hil(boards=["mps2-an385"])
    def test_narrow(device):
        assert device.board == "mps2-an385"
"""


def test_hil_open_runs_on_each_board(suite: pytest.Pytester) -> None:
    suite.makepyfile(OPEN)
    boards = ("--hil-board=mps2-an386", "--hil-board=mps2-an385")
    result = run(suite, *boards, "-v", "--junit-xml=out.xml")
    result.assert_outcomes(passed=5)
    result.stdout.fnmatch_lines(
        [
            "*::test_one[[]mps2-an386[]] PASSED*",
            "*::test_two[[]mps2-an386[]] PASSED*",
            "*::test_one[[]mps2-an385[]] PASSED*",
            "*::test_two[[]mps2-an385[]] PASSED*",
            "*::test_narrow[[]mps2-an385[]] PASSED*",
        ]
    )
    assert (suite.path / "opened").read_text() == "xx"
    path = suite.path / "out.xml"
    assert properties(path, "hil_board") == ["mps2-an386"] * 2 + ["mps2-an385"] * 3
    assert properties(path, "hil_core") == ["cortex-m4"] * 2 + ["cortex-m3"] * 3
    assert set(properties(path, "hil_runner")) == {"qemu"}


def test_hil_open_shares_real_boards(bench_suite: pytest.Pytester) -> None:
    """It releases the board when tests on another one follow, and begins again afterwards."""
    bench_suite.makeconftest(
        """
        import pytest

        @pytest.hookimpl(trylast=True)
        def pytest_collection_modifyitems(items):
            order = "one narrow together two".split()
            items.sort(key=lambda item: order.index(item.originalname.removeprefix("test_")))
        """
    )
    bench_suite.makepyfile(
        OPEN.replace("mps2-an385", "c@bench", 1)
        + """
    @pytest.mark.hil_boards("a@bench", "c@bench")
    def test_together(hil_boards):
        pass
    """
    )
    result = run_apart(bench_suite, "--hil-board=a@bench", "--hil-board=c@bench", "-v")
    result.assert_outcomes(passed=6)
    # On a, on c for two tests, and on both again after the test that took them.
    assert (bench_suite.path / "opened").read_text() == "xxxx"


def test_hil_open_leaves_a_board_that_fails(suite: pytest.Pytester) -> None:
    text = f"""
[boards.dead]
board = "native"
port = "{dead_port()}"
[boards.good]
board = "native"
"""
    (suite.path / "hil-bench.toml").write_text(text)
    suite.makepyfile(
        """
        import pytest

        @pytest.fixture(scope="module")
        def device(hil_open):
            return hil_open("models/tiny.tflite")

        @pytest.mark.parametrize("job", range(2))
        def test_it(device, job):
            device["tiny"].run()
        """
    )
    result = run_apart(suite, "--hil-board=board=native@bench", "--junit-xml=out.xml")
    result.assert_outcomes(passed=2)
    result.stdout.fnmatch_lines(["*hil: boards set aside*", "*passed on another board*"])
    assert set(properties(suite.path / "out.xml", "hil_board")) == {"good@bench"}


def test_hil_open_asked_for_while_a_test_runs(suite: pytest.Pytester) -> None:
    suite.makepyfile(
        """
        def test_it(request):
            request.getfixturevalue("hil_open")("models/tiny.tflite")["tiny"].run()
        """
    )
    run(suite).assert_outcomes(passed=1)
    result = run(suite, "--hil-board=mps2-an386", "--hil-board=mps2-an385")
    result.assert_outcomes(failed=1)
    result.stdout.fnmatch_lines(["*cannot be repeated for mps2-an386, mps2-an385*"])


@pytest.fixture
def rig_suite(pytester: pytest.Pytester, rig: Bench) -> pytest.Pytester:
    (pytester.path / "tiny.tflite").write_bytes(dense_model())
    tests = str(Path(__file__).resolve().parents[1] / "support" / "boards")
    pytester.makeconftest(
        f"""
        import sys
        sys.path.insert(0, {tests!r})
        from pathlib import Path
        from fake_bench import installed
        _bench = installed(Path({str(rig.folder)!r}))
        _bench.__enter__()
        """
    )
    return pytester


def test_properties_of_a_board_behind_a_probe(rig_suite: pytest.Pytester, rig: Bench) -> None:
    rig_suite.makepyfile(FIVE)
    board = rig.add()
    run_on_bench(rig_suite, *pairs(board), "--junit-xml=out.xml").assert_outcomes(passed=5)
    path = rig_suite.path / "out.xml"
    assert set(properties(path, "hil_board")) == {f"mps2-an386:{board.serial}"}
    assert set(properties(path, "hil_probe")) == {board.serial}
    assert set(properties(path, "hil_port")) == {f"usb:{board.serial}"}
    assert set(properties(path, "hil_flasher")) == {"pyocd"}
    assert set(properties(path, "hil_runner")) == {"pyocd"}
    assert set(properties(path, "hil_core")) == {"cortex-m4"}
