// A system on a chip around the RTL of a core: memory with wait states, a line to the host, a cycle
// counter. Verilator makes class Vhil_rtl of the module hil_rtl, the wrapper of the core.
//
// simulator LINE_FD CONTROL_FD JTAG_FD FLASH_WAIT RAM_WAIT PREFETCH KIND:ORIGIN:BYTES...
//
// LINE_FD is a listening socket: the serial line. CONTROL_FD is a connected one: the host reads and
// writes memory, resets, and takes counts; the program ends with it. JTAG_FD is a listening socket
// if the build has a debug module, otherwise -1: OpenOCD's remote_bitbang connects to it.
#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "Vhil_rtl.h"
#include "verilated.h"

// Set by the build from the core's description.
#ifndef HIL_SAME_CYCLE
#error "define HIL_SAME_CYCLE: whether an access may end in the cycle of its request (not OBI)"
#endif
#ifndef HIL_DEBUG
#error "define HIL_DEBUG: whether the core is in a hil_debug, with a debug module"
#endif
#ifndef HIL_BUS_ERRORS
#error "define HIL_BUS_ERRORS: whether the core has inputs for errors of accesses"
#endif

namespace {

constexpr uint32_t BOOT_BYTES = 0x1000;
constexpr uint32_t LINE_BASE = 0xF0000000;
constexpr uint32_t LINE_BYTES = 0x1000;
// Registers of the line and the counter; the port rtl_soc of the firmware has the same.
enum : uint32_t {
    RECEIVE = 0x00,    // read: the next byte, or all ones
    SEND = 0x04,       // write: a byte
    WAIT = 0x08,       // read: answered when a byte was received, or after WAIT_MS
    TIME_LOW = 0x0C,   // read: cycles since reset; TIME_HIGH is of the same moment
    TIME_HIGH = 0x10,  // read
    START = 0x14,      // write: the next read of TIME_LOW starts a measurement, the one after ends it
    RESET = 0x18,      // write: resets the core
};
constexpr uint32_t NOTHING = 0xFFFFFFFF;
// The debug module's memory: the wrappers of cores have its addresses, too.
constexpr uint32_t DEBUG_BASE = 0xF0010000;
constexpr uint32_t DEBUG_BYTES = 0x1000;
constexpr uint32_t DEBUG_RESUMING = 0x108; // written by a core that leaves debug mode
constexpr unsigned JTAG_EDGES_PER_CYCLE = 4;
// Cycles between looks at the sockets while a debugger is active.
constexpr uint64_t DEBUG_LOOK_CYCLES = 64;
// Cycles after which the debug module has done what it was asked.
constexpr uint64_t PARK_CYCLES = 256;
constexpr int WAIT_MS = 1000;
// Cycles between looks at the sockets while the core computes: some milliseconds.
constexpr uint64_t LOOK_CYCLES = 4096;
constexpr size_t SEND_MAX = 1 << 20;
constexpr size_t MEASUREMENTS_MAX = 1 << 16;
constexpr uint32_t LINE_BUFFER_BYTES = 16;

[[noreturn]] void fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    std::vfprintf(stderr, format, arguments);
    va_end(arguments);
    std::fputc('\n', stderr);
    std::exit(1);
}

struct Memory {
    bool is_flash;
    uint32_t origin;
    std::vector<uint8_t> bytes;
    // Wait states of an access; with some, the memory serves one access at a time.
    uint64_t wait;
    uint64_t free_at = 0;

    bool has(uint32_t address, uint64_t count) const {
        return address >= origin && uint64_t{address - origin} + count <= bytes.size();
    }
    // Returns how many cycles an access that is asked for at `now` takes longer than without waits.
    uint64_t occupy(uint64_t now) {
        if (wait == 0) {
            return 0;
        }
        const uint64_t start = std::max(now, free_at);
        free_at = start + wait + 1;
        return start + wait - now;
    }
};

// A line of flash that fetches hit without waits, and the next one, which is read ahead.
struct Prefetch {
    bool is_valid = false;
    uint32_t line = 0;
    uint64_t next_at = 0; // cycle at which the next line is there

    uint64_t fetch(Memory &flash, uint32_t address, uint64_t now) {
        const uint32_t wanted = address / LINE_BUFFER_BYTES;
        if (is_valid && wanted == line) {
            return 0;
        }
        const bool is_next = is_valid && wanted == line + 1;
        const uint64_t waits = is_next ? (next_at > now ? next_at - now : 0) : flash.occupy(now);
        is_valid = true;
        line = wanted;
        next_at = now + waits;
        next_at += flash.occupy(next_at) + 1;
        return waits;
    }
};

struct Request {
    bool is_valid;
    bool is_write;
    uint32_t address;
    uint32_t data;
    uint32_t lanes; // one bit a byte
    bool is_of_debugger = false;

    bool is_to_debug_module() const {
        return HIL_DEBUG && address - DEBUG_BASE < DEBUG_BYTES;
    }
};

struct Response {
    bool granted = false;
    bool is_valid = false;
    bool is_error = false;
    uint32_t data = 0;
};

class Soc {
  public:
    Soc(int line_listener, int control, int jtag_listener, std::vector<Memory> memories,
        bool prefetch)
        : listener_(line_listener), control_(control), jtag_listener_(jtag_listener),
          memories_(std::move(memories)), has_prefetch_(prefetch) {
        for (int descriptor : {listener_, control_, jtag_listener_}) {
            if (descriptor >= 0) {
                fcntl(descriptor, F_SETFL, fcntl(descriptor, F_GETFL) | O_NONBLOCK);
            }
        }
    }

    [[noreturn]] void run() {
        for (;;) {
            reset();
            for (uint64_t next_look = 0; !must_reset_; ++steps_) {
                if (steps_ >= next_look) {
                    serve(is_parked() ? -1 : 0);
                    next_look = steps_ + (is_debugging() ? DEBUG_LOOK_CYCLES : LOOK_CYCLES);
                }
#if HIL_DEBUG
                serve_jtag();
#endif
                step();
            }
        }
    }

  private:
    // -- the core ------------------------------------------------------------------------------

    void reset() {
        must_reset_ = false;
        steps_ = active_at_ = 0;
        clear_buses();
#if HIL_DEBUG
        debugger_ = Port{};
        core_.dm_req = core_.sb_gnt = core_.sb_rvalid = 0;
        core_.trst_n = 1;
        core_.eval();
        core_.trst_n = 0;
        core_.eval();
        core_.trst_n = 1;
#endif
        core_.i_gnt = core_.i_rvalid = core_.i_err = 0;
        core_.d_gnt = core_.d_rvalid = core_.d_err = 0;
        core_.clk = 0;
        core_.rst_n = 1; // some cores need its falling edge
        core_.eval();
        core_.rst_n = 0;
        core_.eval();
        for (int i = 0; i < 16; ++i) {
            core_.clk = !core_.clk;
            core_.eval();
        }
        // The host connects when memory has the image. A debugger loads the image itself.
        while (line_ < 0 && jtag_listener_ < 0 && !must_reset_) {
            serve(-1);
        }
        core_.rst_n = 1;
        core_.eval();
    }

    // What a reset of the system without its debug module resets here.
    void clear_buses() {
        fetches_ = Port{};
        accesses_ = Port{};
        prefetch_ = Prefetch{};
        for (Memory &memory : memories_) {
            memory.free_at = 0;
        }
        cycles_ = first_answer_at_ = retire_latency_ = 0;
        fetch_waits_ = 0;
        total_ = Counts{};
        was_open_ = is_flash_ = false;
        data_waits_[0] = data_waits_[1] = 0;
        is_starting_ = is_measuring_ = false;
    }

    void step() {
        ++cycles_;
        core_.clk = 0;
#if HIL_DEBUG
        core_.dm_req = 0;
#endif
        // In OBI, the answer to a request may be what the next one depends on.
        Response data = accesses_.answered(*this);
        Response instruction = fetches_.answered(*this);
        if (!HIL_SAME_CYCLE) {
            put(data, instruction);
            core_.eval();
        }
        const Request fetch{core_.i_req != 0, false, core_.i_addr, 0, 0xF};
        // A core that executes the debug module's code does what the debugger wants.
        const Request access{core_.d_req != 0, core_.d_we != 0, core_.d_addr,
                             core_.d_wdata,    core_.d_be,      fetches_.request.is_to_debug_module()};
#if HIL_DEBUG
        step_debugger();
#endif
        accesses_.take(*this, access, false, data);
        fetches_.take(*this, fetch, true, instruction);
        put(data, instruction);
        core_.eval();
        count(instruction.is_valid, data.granted);
        if (core_.halted) {
            fail("the core has stopped at a trap that it cannot handle; its last access was to "
                 "0x%08x, its last fetch from 0x%08x",
                 accesses_.request.address, fetches_.request.address);
        }
        core_.clk = 1;
        core_.eval();
    }

    void put(const Response &data, const Response &instruction) {
        core_.i_gnt = instruction.granted;
        core_.i_rvalid = instruction.is_valid;
        core_.i_rdata = instruction.data;
        core_.i_err = instruction.is_error;
        core_.d_gnt = data.granted;
        core_.d_rvalid = data.is_valid;
        core_.d_rdata = data.data;
        core_.d_err = data.is_error;
    }

    // Counts this cycle: an instruction retires, or there is a reason why none does.
    //
    // Cores are in order, so that an access to data delays others while it is open, by its wait
    // states at most. Some cores count an instruction before it accesses memory, so that the cycles
    // it loses may be those of the next access. A fetch that waits delays what retires later, by the
    // stages of the core: as many cycles as the first instruction took, in memory without waits,
    // and those in which an access to data stops the stages.
    void count(bool is_fetched, bool is_accessed) {
        if (is_fetched && first_answer_at_ == 0) {
            first_answer_at_ = cycles_;
        }
        if (is_accessed) {
            if (!was_open_) {
                data_waits_[0] = data_waits_[1] = 0;
            }
            const Memory *memory = memory_at(accesses_.request.address & ~3U, 4);
            is_flash_ = memory != nullptr && memory->is_flash;
            data_waits_[is_flash_] += accesses_.waited;
        }
        // Those of an access before are lost first.
        const bool is_of_flash = data_waits_[!is_flash_] > 0 ? !is_flash_ : is_flash_;
        const bool is_lost_to_data =
            !core_.retired && accesses_.is_open && data_waits_[is_of_flash] > 0;
        if (!is_lost_to_data) {
            fetch_waits_ = fetch_waits_ << 1 | fetches_.is_waiting;
        }
        if (core_.retired) {
            if (total_.retired == 0) {
                retire_latency_ = std::min<uint64_t>(cycles_ - first_answer_at_, 63);
            }
            ++total_.retired;
        } else if (is_lost_to_data) {
            --data_waits_[is_of_flash];
            ++(is_of_flash ? total_.flash_data_waits : total_.ram_data_waits);
        } else if (fetch_waits_ >> retire_latency_ & 1) {
            ++total_.fetch_waits;
        } else {
            ++total_.core;
        }
        was_open_ = accesses_.is_open;
    }

    struct Port {
        bool is_pending = false;
        bool is_open = false;    // there is a request in this cycle that waits or is answered
        bool is_waiting = false; // in this cycle, in a wait state
        uint64_t waited = 0;     // wait states of the request
        uint64_t waits = 0;
        Request request{};
        Response answer;

        // The answer to the open request, if it comes in this cycle.
        Response answered(const Soc &soc) {
            Response response;
            if (!HIL_SAME_CYCLE) {
                finish(soc, response);
            }
            return response;
        }

        // Takes a request, unless one is open.
        void take(Soc &soc, const Request &asked, bool is_fetch, Response &response) {
            if (asked.is_valid && !is_pending && soc.grants(asked)) {
                is_pending = response.granted = true;
                request = asked;
                answer = Response{};
                waits = waited = soc.access(asked, is_fetch, answer);
            }
            if (HIL_SAME_CYCLE) {
                finish(soc, response);
            }
        }

        void finish(const Soc &soc, Response &response) {
            is_open = is_pending;
            is_waiting = is_pending && waits > 0;
            if (is_pending && waits == 0) {
                response = answer;
                if (request.is_to_debug_module()) {
                    response.data = soc.debug_data();
                }
                response.is_valid = true;
                is_pending = false;
            } else if (is_pending) {
                --waits;
            }
        }
    };

    // -- the debugger --------------------------------------------------------------------------

#if HIL_DEBUG
    // The debug module's own accesses to memory; and its reset of all but itself.
    void step_debugger() {
        const unsigned shift = 8 * (core_.sb_addr & 3); // it has its data in the low bytes
        const Request asked{core_.sb_req != 0,      core_.sb_we != 0, core_.sb_addr,
                            core_.sb_wdata << shift, core_.sb_be,     true};
        Response answer = debugger_.answered(*this);
        debugger_.take(*this, asked, false, answer);
        core_.sb_gnt = answer.granted;
        core_.sb_rvalid = answer.is_valid;
        core_.sb_rdata = answer.data >> 8 * (debugger_.request.address & 3);
        if (core_.ndmreset) {
            clear_buses();
            // A core that is reset leaves debug mode, and this debug module does not notice it.
            ask_debug_module({true, true, DEBUG_BASE + DEBUG_RESUMING, 0, 0xF});
        }
    }

    void ask_debug_module(const Request &asked) {
        core_.dm_req = 1;
        core_.dm_we = asked.is_write;
        core_.dm_addr = asked.address;
        core_.dm_wdata = asked.data;
        core_.dm_be = asked.lanes;
    }

    // Returns whether a request is taken: the debug module takes one a cycle.
    bool grants(const Request &asked) {
        if (!asked.is_to_debug_module()) {
            active_at_ = steps_;
            return true;
        }
        if (core_.dm_req) {
            return false;
        }
        ask_debug_module(asked);
        return true;
    }

    uint32_t debug_data() const { return core_.dm_rdata; }

    // Some edges of the JTAG clock, before a cycle of the core: a scan of the debug module's registers
    // still takes more cycles than the module needs to answer.
    void serve_jtag() {
        for (unsigned edges = 0; edges < JTAG_EDGES_PER_CYCLE && !jtag_input_.empty();) {
            const uint8_t command = jtag_input_.front();
            jtag_input_.pop_front();
            active_at_ = steps_;
            if (command >= '0' && command <= '7') {
                core_.tck = (command - '0') >> 2 & 1;
                core_.tms = (command - '0') >> 1 & 1;
                core_.tdi = (command - '0') & 1;
                core_.eval();
                ++edges;
            } else if (command == 'R') {
                jtag_output_.push_back(core_.tdo ? '1' : '0');
            } else if (command >= 'r' && command <= 'u') {
                core_.trst_n = !((command - 'r') >> 1 & 1);
                must_reset_ = must_reset_ || ((command - 'r') & 1);
            } else if (command == 'Q') {
                close_jtag();
            }
        }
        if (jtag_input_.empty() && !jtag_output_.empty()) {
            send_jtag();
        }
    }
#else
    bool grants(const Request &) { return true; }
    uint32_t debug_data() const { return 0; }
#endif

    // Whether a cycle would change nothing: the debugger has stopped the core, and asks nothing.
    bool is_parked() const {
        return HIL_DEBUG && jtag_input_.empty() && steps_ - active_at_ > PARK_CYCLES;
    }

    bool is_debugging() const { return jtag_ >= 0; }

    void send_jtag() {
        while (jtag_ >= 0 && !jtag_output_.empty()) {
            const ssize_t count = send(jtag_, jtag_output_.data(), jtag_output_.size(), MSG_NOSIGNAL);
            if (count > 0) {
                jtag_output_.erase(0, static_cast<size_t>(count));
            } else if (errno == EAGAIN || errno == EINTR) {
                return;
            } else {
                close_jtag();
            }
        }
    }

    void receive_jtag() {
        uint8_t bytes[65536];
        const ssize_t count = recv(jtag_, bytes, sizeof bytes, 0);
        if (count > 0) {
            jtag_input_.insert(jtag_input_.end(), bytes, bytes + count);
        } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_jtag();
        }
    }

    void close_jtag() {
        close(jtag_);
        jtag_ = -1;
        jtag_output_.clear();
        jtag_input_.clear();
    }

    // -- memory --------------------------------------------------------------------------------

    Memory *memory_at(uint32_t address, uint64_t count) {
        for (Memory &memory : memories_) {
            if (memory.has(address, count)) {
                return &memory;
            }
        }
        return nullptr;
    }

    // Does what is asked; returns its wait states.
    uint64_t access(const Request &asked, bool is_fetch, Response &answer) {
        if (asked.is_to_debug_module()) {
            return HIL_SAME_CYCLE; // it answers in the next cycle: see finish
        }
        const uint32_t address = asked.address & ~3U;
        // Reading some registers changes something, so a debugger does not reach them.
        if (address - LINE_BASE < LINE_BYTES && !is_fetch && !asked.is_of_debugger) {
            answer.data = asked.is_write ? (write_register(address - LINE_BASE, asked.data), 0)
                                         : read_register(address - LINE_BASE);
            return 0;
        }
        if (address < BOOT_BYTES && !asked.is_write) {
            answer.data = boot_word(address);
            return 0;
        }
        Memory *memory = memory_at(address, 4);
        if (memory == nullptr || (asked.is_write && memory->is_flash && !asked.is_of_debugger)) {
            // A fetch may be ahead of the core; what it executes of it is not an instruction.
            if (!HIL_BUS_ERRORS && !is_fetch && !asked.is_of_debugger) {
                fail("the core %s 0x%08x, where there is no %s", asked.is_write ? "wrote to" : "read",
                     asked.address, asked.is_write ? "RAM" : "memory");
            }
            answer.is_error = true;
            return 0;
        }
        uint8_t *bytes = &memory->bytes[address - memory->origin];
        if (asked.is_write) {
            for (unsigned lane = 0; lane < 4; ++lane) {
                if (asked.lanes >> lane & 1) {
                    bytes[lane] = static_cast<uint8_t>(asked.data >> 8 * lane);
                }
            }
        } else {
            std::memcpy(&answer.data, bytes, 4);
        }
        if (is_fetch && memory->is_flash && has_prefetch_) {
            return prefetch_.fetch(*memory, address, cycles_);
        }
        return memory->occupy(cycles_);
    }

    // Cores start at the address 0 or 0x80: there is a jump to the image.
    uint32_t boot_word(uint32_t address) const {
        const uint32_t to = memories_.front().origin;
        switch (address & ~0x80U) {
        case 0:
            return ((to + 0x800) & 0xFFFFF000) | 0x2B7; // lui t0, %hi(to)
        case 4:
            return (to & 0xFFF) << 20 | 0x28067; // jr %lo(to)(t0)
        default:
            return 0x13; // nop
        }
    }

    // -- registers -----------------------------------------------------------------------------

    uint32_t read_register(uint32_t offset) {
        switch (offset) {
        case RECEIVE: {
            if (received_.empty()) {
                return NOTHING;
            }
            const uint8_t byte = received_.front();
            received_.pop_front();
            return byte;
        }
        case WAIT:
            // No cycle passes meanwhile, and no time of this machine's processor.
            if (received_.empty()) {
                serve(jtag_input_.empty() ? WAIT_MS : 0);
            }
            return 0;
        case TIME_LOW:
            mark();
            time_high_ = static_cast<uint32_t>(cycles_ >> 32);
            return static_cast<uint32_t>(cycles_);
        case TIME_HIGH:
            return time_high_;
        default:
            return 0;
        }
    }

    void write_register(uint32_t offset, uint32_t value) {
        switch (offset) {
        case SEND:
            if (line_ >= 0 && sent_.size() < SEND_MAX) {
                sent_.push_back(static_cast<char>(value));
            }
            break;
        case START:
            is_starting_ = true;
            break;
        case RESET:
            must_reset_ = true;
            break;
        default:
            break;
        }
    }

    // Cycles by what happens in them.
    struct Counts {
        uint64_t retired = 0;
        uint64_t core = 0;
        uint64_t fetch_waits = 0;
        uint64_t flash_data_waits = 0;
        uint64_t ram_data_waits = 0;

        Counts operator-(const Counts &other) const {
            return {retired - other.retired, core - other.core, fetch_waits - other.fetch_waits,
                    flash_data_waits - other.flash_data_waits,
                    ram_data_waits - other.ram_data_waits};
        }
    };

    struct Measurement {
        uint64_t cycles = 0;
        Counts counts;
    };

    void mark() {
        if (is_starting_) {
            is_starting_ = false;
            is_measuring_ = true;
            began_ = {cycles_, total_};
        } else if (is_measuring_) {
            is_measuring_ = false;
            if (measurements_.size() == MEASUREMENTS_MAX) {
                measurements_.clear(); // of runs that nobody has asked about
            }
            measurements_.push_back({cycles_ - began_.cycles, total_ - began_.counts});
        }
    }

    // -- the host ------------------------------------------------------------------------------

    // Serves the sockets; returns when one had something, or after so many ms (-1: without limit).
    void serve(int timeout_ms) {
        send_line();
        pollfd files[] = {{control_, POLLIN, 0},
                          {line_ < 0 ? listener_ : line_, POLLIN, 0},
                          {jtag_ < 0 ? jtag_listener_ : jtag_, POLLIN, 0}};
        if (!sent_.empty()) {
            files[1].events |= POLLOUT;
        }
        if (!jtag_output_.empty()) {
            files[2].events |= POLLOUT;
        }
        if (poll(files, 3, timeout_ms) < 0) {
            if (errno == EINTR) {
                return;
            }
            fail("poll: %s", std::strerror(errno));
        }
        if (files[0].revents) {
            serve_control();
        }
        if (files[2].revents && jtag_ < 0) {
            jtag_ = accept4(jtag_listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        } else if (files[2].revents) {
            send_jtag();
            receive_jtag();
        }
        if (!files[1].revents) {
            return;
        }
        if (line_ < 0) {
            line_ = accept4(listener_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
        } else {
            send_line();
            receive_line();
        }
    }

    void receive_line() {
        uint8_t bytes[65536];
        const ssize_t count = recv(line_, bytes, sizeof bytes, 0);
        if (count > 0) {
            received_.insert(received_.end(), bytes, bytes + count);
        } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
            close_line();
        }
    }

    void send_line() {
        while (line_ >= 0 && !sent_.empty()) {
            const ssize_t count = send(line_, sent_.data(), sent_.size(), MSG_NOSIGNAL);
            if (count > 0) {
                sent_.erase(0, static_cast<size_t>(count));
            } else if (errno == EAGAIN || errno == EINTR) {
                return;
            } else {
                close_line();
            }
        }
    }

    void close_line() {
        close(line_);
        line_ = -1;
        sent_.clear();
        received_.clear();
    }

    // A request is a letter and two 32-bit numbers, little-endian: R address count, W address count
    // and the bytes, X (reset), C (counts). The answer is a byte, 0 or 1 (no such memory), and
    // data: the bytes, or how many measurements there are and the 64-bit numbers of each.
    void serve_control() {
        uint8_t head[9];
        take(head, sizeof head);
        uint32_t address;
        uint32_t count;
        std::memcpy(&address, head + 1, 4);
        std::memcpy(&count, head + 5, 4);
        switch (head[0]) {
        case 'R':
        case 'W': {
            Memory *memory = memory_at(address, count);
            std::vector<uint8_t> other(memory == nullptr ? count : 0);
            uint8_t *bytes = memory ? memory->bytes.data() + (address - memory->origin) : other.data();
            if (head[0] == 'W') {
                take(bytes, count);
            }
            const uint8_t status = memory == nullptr;
            give(&status, 1);
            if (head[0] == 'R') {
                give(bytes, count);
            }
            break;
        }
        case 'X': {
            must_reset_ = true;
            if (line_ >= 0) {
                close_line();
            }
            const uint8_t status = 0;
            give(&status, 1);
            break;
        }
        case 'C': {
            const uint8_t status = 0;
            const uint32_t found = static_cast<uint32_t>(measurements_.size());
            give(&status, 1);
            give(&found, 4);
            give(measurements_.data(), found * sizeof(Measurement));
            measurements_.clear();
            break;
        }
        default:
            fail("the host sent a request that is not known: %d", head[0]);
        }
    }

    void take(void *to, size_t size) {
        auto *bytes = static_cast<uint8_t *>(to);
        while (size > 0) {
            const ssize_t count = recv(control_, bytes, size, 0);
            if (count > 0) {
                bytes += count;
                size -= static_cast<size_t>(count);
            } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
                wait_for(POLLIN);
            } else {
                std::exit(0); // the host has closed it
            }
        }
    }

    void give(const void *from, size_t size) {
        auto *bytes = static_cast<const uint8_t *>(from);
        while (size > 0) {
            const ssize_t count = send(control_, bytes, size, MSG_NOSIGNAL);
            if (count > 0) {
                bytes += count;
                size -= static_cast<size_t>(count);
            } else if (count < 0 && (errno == EAGAIN || errno == EINTR)) {
                wait_for(POLLOUT);
            } else {
                std::exit(0);
            }
        }
    }

    void wait_for(short events) {
        pollfd file{control_, events, 0};
        poll(&file, 1, -1);
    }

    const int listener_;
    const int control_;
    const int jtag_listener_;
    std::vector<Memory> memories_;
    const bool has_prefetch_;
    Vhil_rtl core_;
    Port fetches_;
    Port accesses_;
    Port debugger_;
    Prefetch prefetch_;
    int line_ = -1;
    std::deque<uint8_t> received_;
    std::string sent_;
    int jtag_ = -1;
    std::deque<uint8_t> jtag_input_;
    std::string jtag_output_;
    bool must_reset_ = false;
    // Cycles since the reset of all; in the last of these, the core or the debugger did something.
    uint64_t steps_ = 0;
    uint64_t active_at_ = 0;
    uint64_t cycles_ = 0;
    Counts total_;
    // Bit n: whether the fetch waited n cycles ago.
    uint64_t fetch_waits_ = 0;
    // Wait states of accesses to RAM and to flash that have cost no cycle yet; whether the last
    // access is to flash, and one was open in the cycle before.
    uint64_t data_waits_[2] = {0, 0};
    bool is_flash_ = false;
    bool was_open_ = false;
    uint64_t first_answer_at_ = 0;
    uint64_t retire_latency_ = 0;
    uint32_t time_high_ = 0;
    bool is_starting_ = false;
    bool is_measuring_ = false;
    Measurement began_{};
    std::vector<Measurement> measurements_;
};

uint64_t number(const char *text) {
    char *end;
    const uint64_t value = std::strtoull(text, &end, 0);
    if (end == text || (*end != '\0' && *end != ':')) {
        fail("%s is not a number", text);
    }
    return value;
}

Memory memory_of(const char *text, uint64_t flash_wait, uint64_t ram_wait) {
    const bool is_flash = std::strncmp(text, "flash:", 6) == 0;
    const char *origin = std::strchr(text, ':');
    const char *size = origin ? std::strchr(origin + 1, ':') : nullptr;
    if (size == nullptr) {
        fail("%s is not KIND:ORIGIN:BYTES", text);
    }
    return {is_flash, static_cast<uint32_t>(number(origin + 1)),
            std::vector<uint8_t>(number(size + 1)), is_flash ? flash_wait : ram_wait};
}

} // namespace

int main(int argc, char **argv) {
    if (argc < 8) {
        fail("usage: %s LINE_FD CONTROL_FD JTAG_FD FLASH_WAIT RAM_WAIT PREFETCH "
             "KIND:ORIGIN:BYTES...",
             argv[0]);
    }
    std::vector<Memory> memories;
    for (int i = 7; i < argc; ++i) {
        memories.push_back(memory_of(argv[i], number(argv[4]), number(argv[5])));
    }
    const auto soc = std::make_unique<Soc>(
        static_cast<int>(number(argv[1])), static_cast<int>(number(argv[2])),
        static_cast<int>(number(argv[3])), std::move(memories), number(argv[6]) != 0);
    soc->run();
}
