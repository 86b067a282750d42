"""Stand-ins of the programs of flashers that this machine lacks, and of successes of those it has.

Each accepts the command lines that its tool documents, and nothing else: unknown options, missing
values, missing files and wrong words end it as a usage error. It appends its words to the file
``STAND_IN_LOG``. ``STAND_IN_FAILURE`` chooses one of the failures in :data:`TOOLS`, whose texts are
those of the tools.

    python tool_stand_in.py NAME ARGUMENT...
"""

from __future__ import annotations

import json
import os
import re
import stat
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path


class Usage(Exception):
    """A command line that the tool does not accept."""


@dataclass(frozen=True)
class Grammar:
    """The options of one command: flags, and options with the form of their value."""

    flags: frozenset[str] = frozenset()
    #: A value is the next word, or follows ``=`` where the name ends in one.
    values: Mapping[str, str] = field(default_factory=dict)
    #: The form of each word that is no option.
    words: Sequence[str] = ()
    #: Options that a command line needs.
    needs: frozenset[str] = frozenset()

    def check(self, arguments: Sequence[str]) -> dict[str, str]:
        """Return the options and their values; raise Usage."""
        found: dict[str, str] = {}
        words: list[str] = []
        rest = iter(arguments)
        for word in rest:
            name, equals, value = word.partition("=")
            if word in self.flags:
                found[word] = ""
            elif word in self.values:
                found[word] = _form(self.values[word], next(rest, ""), word)
            elif equals and f"{name}=" in self.values:
                found[name] = _form(self.values[f"{name}="], value, word)
            elif word.startswith("-"):
                raise Usage(f"unknown option {word}")
            else:
                words.append(word)
        if len(words) != len(self.words):
            raise Usage(f"words {words} instead of {list(self.words)}")
        for form, word in zip(self.words, words, strict=True):
            _form(form, word, "argument")
        if missing := self.needs - found.keys():
            raise Usage(f"missing {sorted(missing)}")
        return found


def _form(form: str, value: str, where: str) -> str:
    """Return a value of that form: a regular expression, or ``FILE.suffix`` of an existing file."""
    if form.startswith("FILE"):
        if not value.endswith(form.removeprefix("FILE")) or not Path(value).is_file():
            raise Usage(f"{where}: no file {value!r}")
    elif not re.fullmatch(form, value):
        raise Usage(f"{where}: {value!r} is not {form}")
    return value


@dataclass(frozen=True)
class Tool:
    """A tool: how it reads its words, and the texts of its failures with their exit codes."""

    #: Checks the words; returns what it prints.
    run: Callable[[list[str]], str]
    failures: Mapping[str, tuple[int, str]]


def _subcommands(table: Mapping[str, tuple[Grammar, str]], depth: int = 1) -> Callable[..., str]:
    def run(words: list[str]) -> str:
        name = " ".join(words[:depth])
        if name not in table:
            raise Usage(f"unknown command {name!r}")
        grammar, text = table[name]
        grammar.check(words[depth:])
        return text

    return run


_CHIP = r"[A-Za-z0-9_]+"
_NUMBER = r"[1-9][0-9]*"

# -- probe-rs: `probe-rs COMMAND --help` of 0.31 ------------------------------------------------
_PROBE_RS = {
    "--chip": _CHIP,
    "--probe": r"[0-9a-f]{4}:[0-9a-f]{4}(:[A-Za-z0-9]+)?",
    "--protocol": "swd|jtag",
    "--speed": _NUMBER,
}
_PROBE_RS_FLAGS = frozenset({"--non-interactive", "--connect-under-reset"})
_probe_rs = _subcommands(
    {
        "download": (
            Grammar(
                _PROBE_RS_FLAGS | {"--verify", "--disable-progressbars"},
                {**_PROBE_RS, "--binary-format": "elf|hex|bin|uf2|idf"},
                ["FILE.elf"],
                frozenset({"--chip"}),
            ),
            "      Erasing ✔ 100% [####################]  16.00 KiB @  40.00 KiB/s (took 0s)\n"
            "  Programming ✔ 100% [####################]  16.00 KiB @  30.00 KiB/s (took 1s)\n"
            "     Finished in 1.03s\n",
        ),
        "reset": (Grammar(_PROBE_RS_FLAGS, _PROBE_RS), ""),
        "erase": (Grammar(_PROBE_RS_FLAGS | {"--allow-erase-all"}, _PROBE_RS), ""),
    }
)

# -- nrfutil device: docs.nordicsemi.com ----------------------------------------------------------
_NRF = {
    "--serial-number": r"\d{9,12}",
    "--traits": r"[a-zA-Z,]+",
    "--core": "Application|Network|Modem|Secure|Flpr|Ppr",
}
_OPTIONS = (
    r"(?:(?:^|,)(?:chip_erase_mode=(?:ERASE_NONE|ERASE_ALL|ERASE_RANGES_TOUCHED_BY_FIRMWARE|"
    r"ERASE_CTRL_AP)|ext_mem_erase_mode=(?:ERASE_NONE|ERASE_ALL|ERASE_RANGES_TOUCHED_BY_FIRMWARE)|"
    r"verify=(?:VERIFY_NONE|VERIFY_READ)|"
    r"reset=(?:RESET_NONE|RESET_SYSTEM|RESET_HARD|RESET_DEBUG|RESET_PIN)))+"
)
_nrfutil = _subcommands(
    {
        "device program": (
            Grammar(
                values={**_NRF, "--firmware": "FILE.hex", "--options": _OPTIONS},
                needs=frozenset({"--firmware"}),
            ),
            "[00:00:01] ###### 100% [1/1 000683459357] Programmed\n",
        ),
        "device reset": (
            Grammar(values={**_NRF, "--reset-kind": "RESET_[A-Z_]+"}),
            "000683459357: Reset\n",
        ),
        "device erase": (
            Grammar(frozenset({"--all", "--uicr", "--all-external"}), _NRF),
            "Erased 000683459357\n",
        ),
        "device recover": (Grammar(values=_NRF), "Recovered 000683459357\n"),
        "device fw-verify": (
            Grammar(values={**_NRF, "--firmware": "FILE.hex"}, needs=frozenset({"--firmware"})),
            "Verified 000683459357\n",
        ),
    },
    depth=2,
)


# -- STM32_Programmer_CLI: UM2237 -----------------------------------------------------------------
_CONNECT = (
    r"port=(?:SWD|JTAG|USB\d+)|freq=\d+|mode=(?:NORMAL|UR|HOTPLUG|POWERDOWN)|sn=[0-9A-F]+|"
    r"reset=(?:SWrst|HWrst|Crst)|ap=\d+|index=\d+"
)


def _stm32(words: list[str]) -> str:
    text, at = "      STM32CubeProgrammer v2.17.0\n", 0
    connected = False
    while at < len(words):
        word = words[at]
        at += 1
        if word in ("-c", "--connect"):
            given = []
            while at < len(words) and not words[at].startswith("-"):
                given.append(_form(_CONNECT, words[at], word))
                at += 1
            if not given or not given[0].startswith("port="):
                raise Usage("-c needs port= first")
            connected = True
        elif word in ("-w", "--write", "-d", "--download"):
            _form("FILE.hex", words[at] if at < len(words) else "", word)
            at += 1
            text += "File download complete\n"
        elif word in ("-v", "--verify"):
            text += "Download verified successfully\n"
        elif word in ("-rst", "-hardRst", "--start"):
            text += "MCU Reset\nSoftware reset is performed\n"
        elif word in ("-e", "--erase"):
            _form("all", words[at], word)
            at += 1
            text += "Mass erase successfully achieved\n"
        elif word == "-ob":
            _form("RDP=0xAA", words[at], word)
            at += 1
            text += "Option Bytes successfully programmed\n"
        elif word not in ("-q", "--quietMode"):
            raise Usage(f"unknown option {word}")
    if not connected:
        raise Usage("no connection")
    return text


# -- JLinkExe: wiki.segger.com, J-Link Commander ------------------------------------------------
_JLINK = Grammar(
    values={
        "-NoGui": "[01]",
        "-ExitOnError": "[01]",
        "-AutoConnect": "[01]",
        "-Device": r"[A-Za-z0-9_.-]+",
        "-If": "SWD|JTAG|cJTAG|FINE|SPI",
        "-Speed": r"\d+|auto|adaptive",
        "-USB": r"[1-9]\d{5,9}",
        "-CommandFile": "FILEscript",
    },
    needs=frozenset({"-Device", "-If", "-Speed", "-CommandFile"}),
)
_JLINK_COMMANDS = {
    r"r": "Reset delay: 0 ms\nReset type NORMAL: Resets core & peripherals via SYSRESETREQ\n",
    r"h": "PC = 08000198, CycleCnt = 00000000\n",
    r"g": "",
    r"erase": "Erasing device...\nErasing done.\n",
    r"loadfile (\S+)( 0x[0-9A-Fa-f]+)?": "Downloading file [{0}]...\nJ-Link: Flash download: Bank 0"
    " @ 0x08000000: 1 range affected (16384 bytes)\nO.K.\n",
    r"exit|qc|q": "",
}


def _jlink(words: list[str]) -> str:
    options = _JLINK.check(words)
    text = "SEGGER J-Link Commander V7.94g\nConnecting to J-Link via USB...O.K.\n"
    for line in Path(options["-CommandFile"]).read_text().splitlines():
        fits = [(re.fullmatch(form, line), said) for form, said in _JLINK_COMMANDS.items()]
        match, said = next(((m, s) for m, s in fits if m), (None, ""))
        if match is None:
            raise Usage(f"script: {line!r}")
        if line.startswith("loadfile"):
            _form("FILE.hex", match[1], "loadfile")
            said = said.format(match[1])
        text += said
    if line not in ("exit", "qc", "q"):
        raise Usage("the script does not end the program")
    return f"{text}Script processing completed.\n"


# -- picotool 2.x: its README -----------------------------------------------------------------
_SELECT = {"--bus": r"\d+", "--address": r"\d+"}
_picotool = _subcommands(
    {
        "load": (
            Grammar(
                frozenset({"--verify", "--execute", "--update", "--ignore-partitions"}),
                {**_SELECT, "--family": r"\S+", "--offset": r"[0-9a-fx]+"},
                ["FILE.elf"],
            ),
            "Loading into Flash: [====]  100%\nVerifying Flash:    [====]  100%\n  OK\n\n"
            "The device was rebooted to start the application.\n",
        ),
        "erase": (Grammar(frozenset({"--all"}), _SELECT), "Erasing: [====] 100%\nErased\n"),
    }
)

# -- dfu-util 0.11: `dfu-util --help`, and the addresses of DfuSe ------------------------------
_DFU = Grammar(
    frozenset({"-R", "-w", "-e"}),
    {
        "-p": r"\d+-\d+(?:\.\d+)*",
        "-a": r"\d+",
        "-D": "FILE.bin",
        "-s": r"(?:0x[0-9a-f]{8})?(?::(?:leave|force|mass-erase|unprotect|will-reset))*",
        "-S": r"\S+",
    },
    needs=frozenset({"-p", "-a"}),
)


def _dfu_util(words: list[str]) -> str:
    options = _DFU.check(words)
    where = options.get("-s", "")
    if "mass-erase" in where and "force" not in where:
        raise Usage('The read unprotect command needs "force"')
    if "-D" not in options and "-s" not in options:
        raise Usage("You need to specify one of -D or -U")
    if "-D" not in options:
        return "dfu-util 0.11\nPerforming mass erase, this can take a moment\n"
    return "dfu-util 0.11\nDownload\t[====] 100%        16384 bytes\nDownload done.\n" + (
        "File downloaded successfully\nSubmitting leave request...\nTransitioning to dfuMANIFEST\n"
        if where
        else "state(7) = dfuMANIFEST, status(0) = No error condition is present\nDone!\n"
    )


# -- bossac 1.9.1: `bossac --help` -------------------------------------------------------------
_BOSSAC = Grammar(
    frozenset({"-i", "-e", "-w", "-v", "-U", "-R", "-b", "-d"}),
    {"--port=": r"/\S+", "--offset=": r"0x[0-9a-f]+"},
)


def _bossac(words: list[str]) -> str:
    file = [word for word in words if not word.startswith("-")]
    Grammar(_BOSSAC.flags, _BOSSAC.values, ["FILE.bin"] * ("-w" in words)).check(words)
    text = "Erase flash\n\nDone in 0.001 seconds\n" if "-e" in words else ""
    if file:
        size = Path(file[0]).stat().st_size
        text += f"Write {size} bytes to flash (4 pages)\n[====] 100% (4/4 pages)\nDone in 0.3 s\n"
    return text + ("Verify successful\n" if "-v" in words else "")


# -- st-flash 1.7.0: its usage text ------------------------------------------------------------
_ST_FLASH = {"--serial": r"[0-9A-Fa-f]+", "--freq=": r"\d+", "--format": "binary|ihex"}
_ST_FLAGS = frozenset({"--connect-under-reset", "--reset", "--hot-plug"})


def _st_flash(words: list[str]) -> str:
    action = next((word for word in words if word in ("write", "reset", "erase")), None)
    if action is None:
        raise Usage("invalid command line")
    flags = _ST_FLAGS if action != "reset" else frozenset()
    forms = [action, "FILE.hex"] if action == "write" else [action]
    found = Grammar(flags, _ST_FLASH, forms).check(words)
    if action == "write" and found.get("--format") != "ihex":
        raise Usage("binary needs an address")
    said = {
        "write": "INFO common_flash.c: Starting verification of write complete\n"
        "INFO common_flash.c: Flash written and verified! jolly good!\n",
        "reset": "",
        "erase": "Mass erasing........\n",
    }
    return f"st-flash 1.7.0\n{said[action]}"


TOOLS: Mapping[str, Tool] = {
    "probe-rs": Tool(
        _probe_rs,
        {
            "absent": (1, "Error: No connected probes were found.\n"),
            "locked": (
                1,
                "Error: Connecting to the chip was unsuccessful.\n\nCaused by:\n    "
                "An operation could not be performed because it lacked the permission to do so: "
                "erase_all\n Hint: use --allow-erase-all\n",
            ),
            "chip": (1, "Error: The chip 'nosuch' was not found in the database.\n"),
            "verify": (1, "Error: Flash verification failed: contents mismatch\n"),
            "target": (1, "Error: The target device did not respond to a request.\n"),
        },
    ),
    "nrfutil": Tool(
        _nrfutil,
        {
            "absent": (1, "Error: No devices found with the given serial number\n"),
            "locked": (
                1,
                "Error: One or more program tasks failed:\n * 000683459357: The operation attempted"
                " is unavailable due to readback protection in your device "
                "(NotAvailableBecauseProtection)\n",
            ),
            "device": (2, "error: unrecognized subcommand 'device'\n"),
            "verify": (1, "Error: 000683459357: Verify failed, VerifyError\n"),
        },
    ),
    "STM32_Programmer_CLI": Tool(
        _stm32,
        {
            "absent": (1, "Error: No debug probe detected.\n"),
            "locked": (
                1,
                "Warning: Device is under Read Out Protection\nError: a read Operation failed, "
                "please check if any memory protection mechanism is active.\n",
            ),
            "target": (1, "Error: Unable to get core ID\nError: No STM32 target found!\n"),
            "erase": (1, "Error: failed to erase memory\n"),
            "silent": (0, "      STM32CubeProgrammer v2.17.0\n"),
        },
    ),
    "JLinkExe": Tool(
        _jlink,
        {
            "absent": (1, "Connecting to J-Link via USB...FAILED: Cannot connect to J-Link.\n"),
            "locked": (1, "Connecting to J-Link via USB...O.K.\nDevice is secured. Unsecure?\n"),
            "target": (1, "Connecting to J-Link via USB...O.K.\nCannot connect to target.\n"),
            "program": (
                0,
                "Connecting to J-Link via USB...O.K.\nDownloading file [image.hex]...\n"
                "****** Error: Failed to download RAMCode.\nUnspecified error -1\n",
            ),
        },
    ),
    "picotool": Tool(
        _picotool,
        {
            "absent": (249, "No accessible RP2040 devices in BOOTSEL mode were found.\n"),
            "family": (1, "ERROR: File family ID does not match the device\n"),
            "verify": (1, "ERROR: Verify failed: flash contents differ\n"),
        },
    ),
    "dfu-util": Tool(
        _dfu_util,
        {
            "absent": (74, "dfu-util: No DFU capable USB device available\n"),
            "locked": (
                74,
                "dfu-util: ERASE_PAGE not correctly executed: device is read protected\n",
            ),
            "address": (74, "dfu-util: Last page at 0x08080fff is not writeable\n"),
            "program": (74, "dfu-util: Error during download get_status: LIBUSB_ERROR_PIPE\n"),
            "permission": (74, "dfu-util: Cannot open DFU device: LIBUSB_ERROR_ACCESS\n"),
        },
    ),
    "bossac": Tool(
        _bossac,
        {
            "absent": (1, "No device found on ttyACM0\n"),
            "locked": (1, "Flash is locked, security bit is set\n"),
            "verify": (2, "Verify failed\nPage errors: 1\nByte errors: 256\n"),
        },
    ),
    "st-flash": Tool(
        _st_flash,
        {
            "absent": (255, "WARN usb.c: Couldn't find any ST-Link devices\n"),
            "target": (255, "Failed to connect to target\nunknown chip id! 0xe0042000\n"),
            "locked": (255, "ERROR common_flash.c: Flash memory is write protected\n"),
            "verify": (0, "ERROR common_flash.c: Verification of flash failed at offset: 0\n"),
        },
    ),
}


def install(folder: Path, name: str) -> None:
    """Put the stand-in of a tool into a folder of PATH."""
    path = folder / name
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{__file__}" {name} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def main(name: str, words: list[str]) -> int:
    """Run the stand-in of a tool."""
    with open(os.environ["STAND_IN_LOG"], "a") as log:
        log.write(json.dumps([name, *words]) + "\n")
    tool, failure = TOOLS[name], os.environ.get("STAND_IN_FAILURE")
    try:
        said = tool.run(words)
    except Usage as error:
        print(f"STAND-IN USAGE ERROR: {error}")
        return 64
    if failure == "hang":
        print("working", flush=True)
        time.sleep(600)
    if failure is None:
        print(said, end="")
        return 0
    code, text = tool.failures[failure]
    print(text, end="", file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2:]))
