#!/usr/bin/env bash
# Makes a checkout ready: system packages where some are missing, and the virtual environment .venv
# with the project installed editable. Does nothing, quickly, when everything is there.
#
#   PYTHON=python3.12 ci/setup.sh    choose the interpreter (3.10 or later)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

readonly VENV=.venv
readonly STAMP=$VENV/hil-setup.json       # what .venv was made from and holds
readonly TRIED=$VENV/hil-apt-tried        # optional packages that apt could not bring
readonly LOCK=ci/locks/development.txt     # each package's version and hashes; `make lock` writes it
readonly ATTEMPTS=3
export PIP_USER=0 PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_NO_INPUT=1 PYTHONNOUSERSITE=1
unset PYTHONHOME PYTHONPATH

say() { printf 'setup: %s\n' "$*" >&2; }
fail() {
    say "$1"
    shift
    [ $# -eq 0 ] || printf '\n%s\n' "hint: $*" >&2
    exit 1
}
has() { command -v "$1" >/dev/null 2>&1; }

# try N COMMAND...: up to N times with a growing pause, for networks fail for moments; at once no
# more where the command says by its status that this is not the reason.
readonly PERMANENT=9
try() {
    local attempts=$1 attempt status
    shift
    for ((attempt = 1; ; attempt++)); do
        status=0
        "$@" || status=$?
        [ "$status" -ne 0 ] || return 0
        [ "$attempt" -lt "$attempts" ] && [ "$status" -ne "$PERMANENT" ] || return 1
        say "attempt $attempt of $attempts failed, trying again in $((attempt * 5)) s"
        sleep $((attempt * 5))
    done
}

# --- the interpreter --------------------------------------------------------------------------

version_of() { "$1" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null; }

# The reference litert-ref, ai-edge-litert 1.2.0, exists for Python 3.10 to 3.12: one of these if
# there is one, else any later one. The reference tflm exists up to Python 3.14.
choose_python() {
    local candidate version seen="" later="" candidates=(python3 python3.12 python3.11 python3.10)
    [ -z "${PYTHON:-}" ] || candidates=("$PYTHON")
    for candidate in "${candidates[@]}"; do
        version=$(version_of "$candidate") || continue
        case $version in
            3.10 | 3.11 | 3.12)
                python=$candidate python_version=$version
                return
                ;;
            3.1[3-9] | 3.[2-9][0-9]) later=${later:-$candidate} ;;
        esac
        seen="${seen:+$seen,} $candidate is $version"
    done
    [ -n "$later" ] || fail "no Python 3.10 or later found:${seen:- tried ${candidates[*]}}" \
        "install one and say 'make PYTHON=/path/to/python3 ...'"
    python=$later python_version=$(version_of "$later")
}

# --- system packages --------------------------------------------------------------------------

has_libc_headers() { gcc -E -x c - -o /dev/null <<<'#include <stdio.h>' 2>/dev/null; }
has_newlib() { [ -f "$(arm-none-eabi-gcc -print-file-name=libc_nano.a 2>/dev/null)" ]; }
has_picolibc() { [ -f "$(riscv64-unknown-elf-gcc -print-file-name=picolibc.specs 2>/dev/null)" ]; }
has_libfuzzer() { compgen -G "$(clang --print-runtime-dir 2>/dev/null)/libclang_rt.fuzzer-*.a" >/dev/null; }
libfuzzer_package() { local version; version=$(clang -dumpversion) && echo "libclang-rt-${version%%.*}-dev"; }
has_venv() { [ -x "$VENV/bin/python" ] || "$python" -c 'import ensurepip, venv' 2>/dev/null; }

# Sets `needed` and `optional`: Debian's names of the packages that are missing.
find_missing() {
    needed=() optional=()
    has gcc || needed+=(gcc)
    has g++ || needed+=(g++)
    { has gcc && has_libc_headers; } || needed+=(libc6-dev)
    has arm-none-eabi-gcc || needed+=(gcc-arm-none-eabi)
    has_newlib || needed+=(libnewlib-arm-none-eabi)
    has qemu-system-arm || needed+=(qemu-system-arm)
    has clang || needed+=(clang)
    has_venv || needed+=("python$python_version-venv")
    has cppcheck || optional+=(cppcheck)
    has clang-tidy || optional+=(clang-tidy)
    has gdb-multiarch || optional+=(gdb-multiarch)
    has riscv64-unknown-elf-gcc || optional+=(gcc-riscv64-unknown-elf)
    has_picolibc || optional+=(picolibc-riscv64-unknown-elf)
    has qemu-system-riscv32 || optional+=(qemu-system-misc)
    has verilator || optional+=(verilator)
    has ccache || optional+=(ccache)
    # The programs of flashers, which tests run.
    has openocd || optional+=(openocd)
    has dfu-util || optional+=(dfu-util)
    has bossac || optional+=(bossa-cli)
    has st-flash || optional+=(stlink-tools)
    # A power switch, in a folder that is not on the path of every user.
    has uhubctl || [ -x /usr/sbin/uhubctl ] || optional+=(uhubctl)
    # clang's version is part of the name: where clang is missing, the name is known once it is there.
    ! has clang || has_libfuzzer || optional+=("$(libfuzzer_package)")
}

as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ -t 0 ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

can_use_apt() { has apt-get && { [ "$(id -u)" = 0 ] || { has sudo && { [ -t 0 ] || sudo -n true 2>/dev/null; }; }; }; }

apt_install() {
    as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq -y \
        -o DPkg::Lock::Timeout=120 -o Acquire::Retries=3 install --no-install-recommends "$@" >&2
}

# The package lists of a fresh machine are empty or old: bring them only where that matters.
apt_update_and_install() {
    as_root apt-get -qq -o Acquire::Retries=3 update >&2
    apt_install "$@"
}

install_packages() {
    local missing=("${needed[@]}" "${optional[@]}")
    [ ${#missing[@]} -gt 0 ] || return 0
    if [ ${#needed[@]} -eq 0 ] && [ "$(cat "$TRIED" 2>/dev/null)" = "${optional[*]}" ]; then
        return 0
    fi
    if can_use_apt; then
        say "installing ${missing[*]}"
        apt_install "${missing[@]}" 2>/dev/null || try "$ATTEMPTS" apt_update_and_install "${missing[@]}" ||
            # One package that this distribution lacks must not keep the others away.
            { [ ${#needed[@]} -gt 0 ] && apt_install "${needed[@]}"; } || true
    fi
    find_missing
    if [[ ${optional[*]} == *libclang-rt-* && ${missing[*]} != *libclang-rt-* ]] && can_use_apt; then
        apt_install "${optional[@]}" 2>/dev/null || true
        find_missing
    fi
    if [ ${#needed[@]} -gt 0 ]; then
        fail "these system packages are missing and could not be installed: ${needed[*]}" \
            "the names are Debian's and Ubuntu's ('sudo apt-get install ${needed[*]} ${optional[*]}');" \
            "elsewhere install what brings gcc and g++ with the C library, arm-none-eabi-gcc with" \
            "newlib, qemu-system-arm, clang and Python's venv module, then run this again"
    fi
    [ ${#optional[@]} -eq 0 ] || say "going on without ${optional[*]}: 'make check', debugging, fuzzing or RISC-V boards may ask for them, tests take longer without ccache"
}

# --- the virtual environment ------------------------------------------------------------------

# Prints what .venv is made from and holds; equal text means that nothing has to be done.
venv_state() {
    "$VENV/bin/python" - "$python_version" pyproject.toml ci/setup.sh "$LOCK" <<'PY'
import hashlib, json, pathlib, sys, sysconfig
root = pathlib.Path.cwd()
inputs = b"".join((root / name).read_bytes() for name in sys.argv[2:])
site = pathlib.Path(sysconfig.get_path("purelib"))
print(json.dumps({
    "inputs": hashlib.sha256(inputs).hexdigest(),
    "root": str(root),
    "python": [sys.version, sys.base_prefix],
    "wanted": sys.argv[1],
    "packages": sorted(path.name for path in site.glob("*.dist-info") if (path / "RECORD").exists()),
}))
PY
}

venv_is_current() {
    [ -x "$VENV/bin/python" ] && [ -f "$STAMP" ] && [ "$(venv_state 2>/dev/null)" = "$(cat "$STAMP")" ]
}

venv_is_usable() {
    [ "$(version_of "$VENV/bin/python")" = "$python_version" ] &&
        "$VENV/bin/python" -m pip --version >/dev/null 2>&1
}

make_venv() {
    say "making $VENV with $python ($python_version)"
    "$python" -m venv --clear "$VENV" >&2 || "$python" -m virtualenv --clear "$VENV" >&2 || return 1
    venv_is_usable
}

readonly NETWORK='connection|timed? ?out|resolution|network|incomplete'
pip_install() { "$VENV/bin/python" -m pip install -q --retries 5 --timeout 60 "$@" >"$pip_log" 2>&1; }

# The locked packages, then the project with what they hold: nothing else comes from an index.
install_project() {
    pip_install --require-hashes --only-binary :all: -r "$LOCK" &&
        pip_install --no-index --no-deps --no-build-isolation -e . && return 0
    # A file that differs from its hash is another file, however often it is fetched.
    ! grep -q 'DO NOT MATCH THE HASHES' "$pip_log" || return "$PERMANENT"
    # Another attempt helps against a bad network only.
    grep -qiE "$NETWORK|matching distribution" "$pip_log" || return "$PERMANENT"
    return 1
}

explain_failure() {
    tail -n 40 "$pip_log" >&2
    if grep -q 'DO NOT MATCH THE HASHES' "$pip_log"; then
        fail "a package differs from its hash in $LOCK: it was not installed" \
            "pip's message above names it; the index serves another file than the one that was locked"
    fi
    if grep -qi 'matching distribution' "$pip_log" && ! grep -qiE "$NETWORK" "$pip_log"; then
        fail "$LOCK has no package for Python $python_version on $(uname -s) $(uname -m) that pip can install" \
            "pip's message above names it; take Python 3.10 to 3.13 on Linux ('make PYTHON=python3.12 ...')," \
            "or an index that has the version; 'make lock ARGS=--upgrade' locks the newest versions"
    fi
    fail "pip could not install the project into $VENV" \
        "its message is above; without a network, point PIP_INDEX_URL or PIP_FIND_LINKS to a mirror"
}

update_venv() {
    pip_log=$(mktemp)
    rm -f "$STAMP"
    if ! venv_is_usable; then
        make_venv || fail "cannot make the virtual environment $VENV with $python" \
            "remove $VENV if it is not writable, or install python$python_version-venv"
    fi
    say "installing the project and its Python packages into $VENV"
    case $python_version in
        3.10 | 3.11 | 3.12) ;;
        *) say "the reference 'litert-ref' (ai-edge-litert 1.2.0) does not exist for Python" \
            "$python_version: for operators that 'tflm' lacks, comparisons use this project's own" \
            "interpreter instead" ;;
    esac
    case $(uname -s)-$(uname -m)-$python_version in
        Linux-x86_64-3.1[0-4]) ;;
        *) say "the reference 'tflm' (tflite-micro) exists for Linux on x86-64 and Python 3.10 to" \
            "3.14 only: comparisons use another one" ;;
    esac
    # A damaged environment fails for ever: start once from nothing before giving up.
    try "$ATTEMPTS" install_project || { make_venv && install_project; } || explain_failure
    rm -f "$pip_log"
    venv_state >"$STAMP.new" && mv "$STAMP.new" "$STAMP"
}

choose_python
find_missing
install_packages
venv_is_current || update_venv
[ ${#optional[@]} -eq 0 ] && rm -f "$TRIED" || printf '%s' "${optional[*]}" >"$TRIED"
