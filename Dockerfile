# An image for CI with `hil`, the cross compilers, the emulators and the programs of flashers.
#
#   docker build -t hil .                         the image; `hil` is on the path
#   docker build -t hil-tools --target tools .    the system packages only, for work on hil itself
#   docker build --build-arg BASE=debian:bookworm-slim@sha256:... .    from a fixed base
ARG BASE=debian:bookworm-slim
FROM ${BASE} AS tools

# The packages of ci/setup.sh by their names in this release of Debian, and what its users need.
RUN apt-get -qq update \
    && DEBIAN_FRONTEND=noninteractive apt-get -qq -y install --no-install-recommends \
        bossa-cli \
        ca-certificates \
        ccache \
        clang \
        clang-tidy \
        cppcheck \
        dfu-util \
        g++ \
        gcc \
        gcc-arm-none-eabi \
        gcc-riscv64-unknown-elf \
        gdb-multiarch \
        git \
        libc6-dev \
        libclang-rt-14-dev \
        libnewlib-arm-none-eabi \
        make \
        openocd \
        picolibc-riscv64-unknown-elf \
        python3 \
        python3.11-venv \
        qemu-system-arm \
        qemu-system-misc \
        stlink-tools \
        uhubctl \
        verilator \
    && rm -rf /var/lib/apt/lists/*

FROM tools
WORKDIR /opt/hil
COPY . .
# The locked Python packages, by their hashes, and the project.
RUN bash ci/setup.sh && rm -rf /root/.cache/pip
ENV PATH=/opt/hil/.venv/bin:${PATH}
WORKDIR /work
CMD ["hil", "doctor"]
