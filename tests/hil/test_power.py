"""Power switches by drivers: stand-ins for the devices on loopback, and the real uhubctl."""

from __future__ import annotations

import json
import re
import shutil
import threading
from pathlib import Path
from typing import Any

import pytest
from power_devices import (
    Device,
    Says,
    ShellyGen1,
    ShellyGen2,
    Tasmota,
    raw_server,
    served,
    write_uhubctl,
)

from hil.board import load_board
from hil.board.config import toml_text
from hil.cli import main
from hil.device.power import Power, power_of, power_of_board
from hil.device.recovery import Recovery, Step
from hil.errors import DeviceError, InputError, Remedy

UHUBCTL = shutil.which("uhubctl", path="/usr/sbin:/usr/bin")


@pytest.fixture
def config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "config.toml"
    monkeypatch.setenv("HIL_CONFIG", str(path))
    monkeypatch.chdir(tmp_path)
    return path


def written(path: Path, table: str = "boards.native.power", **values: Any) -> None:
    path.write_text(f"[{table}]\n" + "".join(f"{k} = {toml_text(v)}\n" for k, v in values.items()))


def switch(config: Path, **values: Any) -> Power:
    written(config, **values)
    power = power_of("native")
    assert power is not None
    return power


# -- sockets of the network -------------------------------------------------------------------

REQUESTS = {
    ("shelly", ShellyGen1): ["/shelly", "/relay/1?turn=off", "/shelly", "/relay/1?turn=on"],
    ("shelly", ShellyGen2): [
        *("/shelly", "/rpc/Switch.Set?id=1&on=false", "/rpc/Switch.GetStatus?id=1"),
        *("/shelly", "/rpc/Switch.Set?id=1&on=true", "/rpc/Switch.GetStatus?id=1"),
    ],
    ("tasmota", Tasmota): ["/cm?cmnd=Power1%20Off", "/cm?cmnd=Power1%20On"],
}


@pytest.mark.parametrize(("kind", "requests"), REQUESTS.items())
def test_a_socket_is_cycled(
    config: Path,
    kind: tuple[str, type[Device]],
    requests: list[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
    driver, device = kind[0], kind[1]()
    with served(device) as host:
        power = switch(config, driver=driver, host=host, channel=1, off_s=0.01)
        power.turn(False)
        assert sorted(device.outputs.values()) == [False, True]
        power.turn(True)
        assert all(device.outputs.values())
        assert device.requests == requests
        power.cycle()
    assert device.requests == 2 * requests
    assert set(device.hosts) == {host}


def test_a_tasmota_with_one_output_does_not_number_it(config: Path) -> None:
    device = Tasmota()
    del device.outputs[1]
    with served(device) as host:
        switch(config, driver="tasmota", host=host).turn(False)
    assert device.outputs == {0: False}


NEED_USER = {"WARNING": "Need user=<username>&password=<password>"}


@pytest.mark.parametrize(
    ("driver", "device", "message"),
    [
        ("shelly", Says(401, "Unauthorized"), "asks for a password"),
        ("tasmota", Says(401, NEED_USER), "asks for a password"),
        ("tasmota", Says(200, NEED_USER), "asks for a password"),
        ("shelly", Says(302, "http://127.0.0.1:9/shelly"), "redirects to 'http://127.0.0.1:9/shel"),
        ("tasmota", Says(307, "/elsewhere"), "redirects to '/elsewhere', which is not followed"),
        ("shelly", Says(200, "<html>Printer</html>"), "not answer like a Shelly: '<html>Printer"),
        ("shelly", Says(200, {"name": "x"}), "does not answer like a Shelly: \"{'name': 'x'}"),
        ("shelly", Says(200, [1]), "does not answer like a Shelly"),
        ("shelly", Says(200, "[" * 60_000), "does not answer like a Shelly"),
        ("tasmota", ShellyGen2(), "does not answer like a Tasmota|cannot be used"),
        ("tasmota", Says(200, {"Command": "Unknown"}), "does not answer like a Tasmota"),
        ("tasmota", Says(500, "\x1b[2Jno"), r"with status 500: '\\x1b\[2Jno'"),
        ("tasmota", Says(200, "x" * 70_000), "answers with more than 65536 bytes"),
    ],
)
def test_an_answer_that_is_refused(config: Path, driver: str, device: Device, message: str) -> None:
    with served(device) as host:
        power = switch(config, driver=driver, host=host)
        with pytest.raises(DeviceError, match=message) as caught:
            power.turn(False)
    assert len(device.requests) == 1
    assert str(config) in caught.value.hint


@pytest.mark.parametrize("kind", REQUESTS)
def test_a_socket_that_does_not_switch(config: Path, kind: tuple[str, type[Device]]) -> None:
    device = kind[1]()
    device.works = False
    with served(device) as host:
        power = switch(config, driver=kind[0], host=host)
        with pytest.raises(DeviceError, match=r"did not switch off: channel \d is on"):
            power.cycle()


@pytest.mark.parametrize(
    ("driver", "device", "channel", "message"),
    [
        ("shelly", ShellyGen1, 7, "answers /relay/7.* with status 404: 'Not Found'"),
        ("shelly", ShellyGen2, 7, "value 7 not found!"),
        ("tasmota", Tasmota, 7, "'Command': 'Unknown'"),
    ],
)
def test_a_channel_that_is_not_there(
    config: Path, driver: str, device: type[Device], channel: int, message: str
) -> None:
    with served(device()) as host:
        power = switch(config, driver=driver, host=host, channel=channel)
        with pytest.raises(DeviceError, match=message):
            power.turn(True)


def silent(connection: Any, end: threading.Event) -> None:
    end.wait()


def slow_headers(connection: Any, end: threading.Event) -> None:
    """A byte of a header now and then: each wait of the client is short."""
    connection.sendall(b"HTTP/1.1 200 OK\r\nX: ")
    while not end.wait(0.02):
        connection.sendall(b"x")


def slow_body(connection: Any, end: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n")
    while not end.wait(0.02):
        connection.sendall(b" ")


def endless_continue(connection: Any, end: threading.Event) -> None:
    while not end.is_set():
        connection.sendall(b"HTTP/1.1 100 Continue\r\n\r\n")


def endless_headers(connection: Any, end: threading.Event) -> None:
    connection.sendall(b"HTTP/1.1 200 OK\r\n")
    while not end.is_set():
        connection.sendall(b"X: " + b"x" * 1000 + b"\r\n")


def another_protocol(connection: Any, end: threading.Event) -> None:
    connection.recv(1 << 16)
    connection.sendall(b"SSH-2.0-OpenSSH_9.2\r\n")


def nothing(connection: Any, end: threading.Event) -> None:
    connection.recv(1 << 16)


@pytest.mark.parametrize(
    ("serve", "message"),
    [
        (silent, "did not answer within 0.5 s"),
        (slow_headers, "did not answer within 0.5 s"),
        (slow_body, "did not answer within 0.5 s"),
        (endless_continue, "did not answer within 0.5 s"),
        (endless_headers, "it sends no HTTP"),
        (another_protocol, "it sends no HTTP"),
        (nothing, "it sends no HTTP"),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_a_server_that_ends_no_answer(config: Path, serve: Any, message: str) -> None:
    with raw_server(serve) as host:
        power = switch(config, driver="tasmota", host=host, timeout_s=0.5)
        with pytest.raises(DeviceError, match=message):
            power.turn(True)


@pytest.mark.parametrize("host", ["127.0.0.1:1", "[::1]:1", "[:::]", "no-such-host.invalid"])
def test_a_host_that_is_not_there(config: Path, host: str) -> None:
    power = switch(config, driver="shelly", host=host, timeout_s=20)
    with pytest.raises(DeviceError, match=rf"at {re.escape(host)} cannot be used: \w+"):
        power.turn(True)


# -- uhubctl ----------------------------------------------------------------------------------


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = write_uhubctl(tmp_path / "hub")
    monkeypatch.setenv("PATH", str(folder), prepend=":")
    return folder


def test_a_port_of_a_hub_is_cycled(config: Path, hub: Path) -> None:
    switch(config, driver="uhubctl", location="1-1", port=2, off_s=0.01).cycle()
    assert (hub / "calls").read_text() == "-l 1-1 -p 2 -a off\n-l 1-1 -p 2 -a on\n"
    assert (hub / "state").read_text() == "on"


def test_a_port_that_the_hub_does_not_have(config: Path, hub: Path) -> None:
    power = switch(config, driver="uhubctl", location="1-1", port=7)
    with pytest.raises(DeviceError, match="was not switched: uhubctl reports no port 7 of the hub"):
        power.turn(False)


def test_a_hub_that_does_not_switch(
    config: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(write_uhubctl(tmp_path / "dead", works=False)), prepend=":")
    power = switch(config, driver="uhubctl", location="1-1", port=2)
    with pytest.raises(DeviceError, match="did not switch off: uhubctl reports '0100 power'"):
        power.cycle()


@pytest.mark.skipif(UHUBCTL is None, reason="uhubctl is not installed: ci/setup.sh brings it")
def test_the_real_uhubctl_without_the_hub(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/usr/bin:/bin")  # without /usr/sbin, as that of many users
    power = switch(config, driver="uhubctl", location="99-9.9", port=2)
    with pytest.raises(DeviceError, match=r"failed with 1: \S*uhubctl -l 99-9.9 -p 2 -a off") as e:
        power.turn(False)
    assert "No compatible devices detected" in e.value.fact
    assert "lists the hubs" in e.value.hint


def test_uhubctl_is_not_installed(config: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hil.device.power.programs._SYSTEM_PROGRAMS", str(config.parent))
    monkeypatch.setenv("PATH", str(config.parent))
    power = switch(config, driver="uhubctl", location="1-1", port=2)
    with pytest.raises(DeviceError, match="needs uhubctl, which is not installed") as caught:
        power.turn(True)
    assert caught.value.hint.startswith("apt install uhubctl")


# -- what is stated ---------------------------------------------------------------------------

INVALID = [
    ({"driver": "uhubclt"}, "unknown driver 'uhubclt' (did you mean uhubctl?)"),
    ({"driver": "uhubctl", "port": 1}, "power.location: the key is missing"),
    ({"driver": "uhubctl", "location": "1-1"}, "power.port: the key is missing"),
    ({"driver": "uhubctl", "location": "1-1", "port": 15}, "port: 15 is not within 1 to 14"),
    ({"driver": "uhubctl", "location": "1-1", "port": 1.5}, "port: 1.5 is not an integer"),
    ({"driver": "uhubctl", "location": "1-1", "port": "2"}, "port: '2' is not an integer"),
    ({"driver": "uhubctl", "location": "-f", "port": 1}, "power.location is '-f'"),
    ({"driver": "uhubctl", "location": "1-1", "port": 1, "host": "x"}, "power.host is no key of"),
    ({"driver": "shelly", "host": "http://x"}, "power.host is 'http://x'"),
    ({"driver": "shelly", "host": "x/y"}, "power.host is 'x/y'"),
    ({"driver": "shelly", "host": "me@x"}, "power.host is 'me@x'"),
    ({"driver": "shelly", "host": "x\r\nA: b"}, "power.host is 'x\\r\\nA: b'"),
    ({"driver": "shelly", "host": "x:65536"}, "power.host is 'x:65536'"),
    ({"driver": "shelly", "host": "x:0"}, "power.host is 'x:0'"),
    ({"driver": "shelly", "host": "a..b"}, "power.host is 'a..b'"),
    ({"driver": "shelly", "host": 64 * "a"}, "power.host is 'aaaa"),
    ({"driver": "shelly", "host": "x", "cycle": "y"}, "power.cycle is no key of the driver shelly"),
    ({"driver": "tasmota", "host": "x", "channel": 0}, "channel: 0 is not within 1 to 32"),
    ({"cycle": "x", "host": "y"}, "power.host is no key without a driver"),
]


@pytest.mark.parametrize(("table", "message"), INVALID)
def test_a_table_that_is_not_valid(config: Path, table: dict[str, Any], message: str) -> None:
    written(config, **table)
    with pytest.raises(InputError, match=re.escape(message)):
        power_of("native")


def bench(folder: Path, power: str) -> None:
    (folder / "hil-bench.toml").write_text(f"[boards.one]\nboard = 'native'\npower = {power}\n")


@pytest.mark.parametrize(("table", "message"), INVALID[:-1])
def test_a_bench_file_is_checked_alike(config: Path, table: dict[str, Any], message: str) -> None:
    values = ", ".join(f"{key} = {toml_text(value)}" for key, value in table.items())
    bench(config.parent, f"{{ {values} }}")
    if "cycle" in table:
        message = "power.cycle is a command, and a bench file runs none"
    with pytest.raises(InputError, match=re.escape(message)):
        power_of_board(load_board("one@bench"))


@pytest.mark.parametrize(
    ("power", "key"),
    [
        ("{ cycle = 'touch ran' }", "cycle"),
        ("{ off = 'touch ran', on = 'touch ran' }", "off"),
        ("{ on = 'touch ran' }", "on"),
    ],
)
def test_a_bench_file_runs_no_command(
    config: Path, power: str, key: str, capsys: pytest.CaptureFixture[str]
) -> None:
    bench(config.parent, power)
    assert main(["power", "cycle", "--board", "one@bench"]) == 2
    said = capsys.readouterr().err
    assert f"boards.one.power.{key} is a command, and a bench file runs none" in said
    assert '[boards."one@bench".power]' in said
    assert not (config.parent / "ran").exists()


def test_the_users_own_switch_of_a_board_of_the_bench(config: Path) -> None:
    bench(config.parent, "{ driver = 'shelly', host = 'never-asked.invalid' }")
    written(config, 'boards."one@bench".power', cycle="touch ran")
    assert main(["power", "cycle", "--board", "one@bench"]) == 0
    assert (config.parent / "ran").exists()


# -- its use ----------------------------------------------------------------------------------


def test_the_command_switches(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    device = Tasmota()
    with served(device) as host:
        bench(config.parent, f"{{ driver = 'tasmota', host = '{host}', off_s = 0.01 }}")
        for action, is_on in (("off", False), ("on", True), ("cycle", True)):
            assert main(["power", action, "--board", "one@bench", "--json"]) == 0
            assert device.outputs[0] is is_on
            (answer,) = json.loads(capsys.readouterr().out)["results"]
            assert {key: answer[key] for key in ("board", "on", "cycled")} == {
                "board": "one",
                "on": is_on,
                "cycled": action == "cycle",
            }
    assert main(["power", "on", "--board", "one@bench"]) == 4
    assert "cannot be used: Connection refused" in capsys.readouterr().err


def test_a_board_without_a_switch(config: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["power", "on", "--board", "native"]) == 2
    assert "no power switch is stated for native" in capsys.readouterr().err


def test_a_cycle_command_cannot_switch_on(config: Path) -> None:
    power = switch(config, cycle="true")
    with pytest.raises(InputError, match="has one command for its power, cycle, and none for on"):
        power.turn(True)


def test_recovery_uses_a_driver(config: Path) -> None:
    device = ShellyGen2()
    failures = [DeviceError("hangs", remedy=Remedy.POWER)]

    def job() -> str:
        if failures:
            raise failures.pop()
        return "done"

    with served(device) as host:
        power = switch(config, driver="shelly", host=host, off_s=0.01)
        steps = [Step(Remedy.POWER, "a power cycle", power.cycle)]
        recovery = Recovery("native", lambda _: steps)
        assert recovery.repeated(job) == "done"
    assert [attempt.failure for attempt in recovery.attempts] == [""]
    assert "/rpc/Switch.Set?id=0&on=true" in device.requests
    # A switch that is gone ends recovery with its own error.
    failures.append(DeviceError("hangs again", remedy=Remedy.POWER))
    with pytest.raises(DeviceError, match="cannot be used: Connection refused"):
        recovery.repeated(job)
