/* Answers the commands of MLPerf Tiny's runner. A command ends in `%` and its answer in `m-ready`;
 * what cannot be done is answered with `e-[why]`. Nothing is sent that was not asked for, but the
 * two lines after a start. */
#include "hil_mlperf.h"

#include <float.h>
#include <stddef.h>
#include <string.h>

#include "hil_config.h"
#include "hil_fault.h"
#include "hil_guard.h"
#include "hil_model.h"
#include "hil_port.h"
#include "hil_rpc.h"
#ifdef HIL_HAS_STATE
#include "hil_state.h"
#endif

enum { WORDS_MAX = 4, WARMUPS = 10 };

/* A command and its arguments. */
struct words {
    char *at[WORDS_MAX]; /* the first `count` of them */
    size_t count;        /* WORDS_MAX + 1: there are more */
};

/* The command that is being received; its size is at most one more than fits, and says so. */
static char command[HIL_MLPERF_COMMAND_MAX + 1];
static size_t command_size;

static uint32_t expected; /* bytes that `db load` announced, 0: none */
static uint32_t loaded;   /* of these, those that have come */
static bool has_run;      /* since the start */
static float score;       /* of the last inference, where the result is one */

static bool is_streaming;       /* between `start` and `stop` */
static uint64_t streaming_from; /* ticks at `start` */
static uint32_t detected;       /* detections since then, recorded ones */

/* -- what goes out --------------------------------------------------------------------------- */

static void say(const char *text) { hil_uart_write((const uint8_t *)text, strlen(text)); }

static void say_number(uint64_t number) {
    char digits[21];
    size_t at = sizeof digits - 1;

    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + number % 10);
        number /= 10;
    } while (number != 0);
    say(digits + at);
}

static void say_hex(uint8_t byte) {
    static const char digits[] = "0123456789abcdef";
    const char text[] = {digits[byte >> 4], digits[byte & 15], '\0'};

    say(text);
}

static void say_line(const char *before, uint64_t number, const char *after) {
    say(before);
    say_number(number);
    say(after);
    say("\r\n");
}

/* An argument of the host's, without what a terminal would obey or what ends the message. */
static void say_printable(const char *text) {
    for (; *text != '\0'; ++text) {
        const char shown[] = {(char)(*text < ' ' || *text > '~' || *text == ']' ? '?' : *text),
                              '\0'};
        say(shown);
    }
}

/* A float with three decimals, rounded as printf does: a thousand times it is exact in a double.
 * Floats of 1e15 and more have an exponent. */
static void say_float(float value) {
    uint32_t exponent = 0;

    if (value != value || value > FLT_MAX || value < -FLT_MAX) {
        say(value != value ? "nan" : value > 0 ? "inf" : "-inf");
        return;
    }
    double thousandths = 1000.0 * (double)(value < 0 ? -value : value);
    for (; thousandths >= 1e18; thousandths /= 10) {
        ++exponent;
    }
    uint64_t whole = (uint64_t)thousandths;
    const double rest = thousandths - (double)whole;
    whole += rest > 0.5 || (rest == 0.5 && (whole & 1) != 0);
    say(value < 0 ? "-" : "");
    say_number(whole / 1000);
    say(".");
    say_number(whole / 100 % 10);
    say_number(whole / 10 % 10);
    say_number(whole % 10);
    if (exponent != 0) {
        say("e");
        say_number(exponent);
    }
}

static void refuse(const char *why) {
    say("e-[");
    say(why);
    say("]\r\n");
}

static uint64_t microseconds(uint64_t ticks) {
    const uint32_t hz = hil_ticks_hz();

    return ticks / hz * 1000000U + ticks % hz * 1000000U / hz;
}

static void say_time(uint64_t ticks) { say_line("m-lap-us-", microseconds(ticks), ""); }

/* -- what comes in --------------------------------------------------------------------------- */

/* Cuts the command into words, in place. */
static struct words split(char *text) {
    struct words words = {.count = 0};

    while (*text != '\0') {
        for (; *text == ' '; ++text) {
            *text = '\0';
        }
        if (*text == '\0') {
            break;
        }
        if (words.count == WORDS_MAX) {
            ++words.count;
            break;
        }
        words.at[words.count++] = text;
        text += strcspn(text, " ");
    }
    return words;
}

/* Whether the word is a whole number that fits; it is stored then. */
static bool to_number(const char *word, uint32_t *number) {
    uint64_t value = 0;

    for (const char *at = word; *at != '\0'; ++at) {
        if (*at < '0' || *at > '9') {
            return false;
        }
        value = 10 * value + (uint64_t)(*at - '0');
        if (value > UINT32_MAX) {
            return false;
        }
    }
    *number = (uint32_t)value;
    return *word != '\0';
}

/* The number in a place of the command, or `other` without that place. A word that is no number is
 * refused, and false returned. */
static bool number_at(const struct words *words, size_t place, uint32_t other, uint32_t *number) {
    *number = other;
    if (place >= words->count || to_number(words->at[place], number)) {
        return true;
    }
    say("e-[Not a whole number: ");
    say_printable(words->at[place]);
    say("]\r\n");
    return false;
}

/* The value of a hexadecimal digit; 16: it is none. */
static uint8_t digit(char c) {
    if (c >= '0' && c <= '9') {
        return (uint8_t)(c - '0');
    }
    c = (char)(c | 0x20);
    return (uint8_t)(c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16);
}

static void load(const struct words *words) {
    uint32_t size;

    if (words->count < 3) {
        refuse("Command 'db load' requires the # of bytes");
        return;
    }
    if (!number_at(words, 2, 0, &size)) {
        return;
    }
    if (size == 0) {
        refuse("Command 'db load' must be >0 bytes");
        return;
    }
    if (size > hil_mlperf.buffer_bytes) {
        say("e-[Supplied buffer size ");
        say_number(size);
        say_line(" exceeds maximum of ", hil_mlperf.buffer_bytes, "]");
        return;
    }
    expected = size;
    loaded = 0;
    say_line("m-[Expecting ", size, " bytes]");
}

/* Prints what is loaded, or as many bytes as asked for from an offset. */
static void print(const struct words *words) {
    uint32_t count;
    uint32_t offset;

    if (!number_at(words, 2, loaded, &count) || !number_at(words, 3, 0, &offset)) {
        return;
    }
    if (offset >= loaded) {
        say_line("e-[There are ", loaded, " bytes]");
        return;
    }
    const uint32_t end = count < loaded - offset ? offset + count : loaded;
    say("m-buffer");
    for (uint32_t i = offset; i < end; ++i) {
        say("-");
        say_hex(hil_mlperf.buffer[i]);
    }
    say("\r\n");
}

/* Whether the text is bytes that still fit; if not it is refused, and none of it is taken. */
static bool check_bytes(const char *text, size_t length) {
    for (size_t i = 0; i < length; ++i) {
        if (digit(text[i]) == 16) {
            say("e-[Invalid hex digit '");
            say_printable((const char[]){text[i], '\0'});
            say("']\r\n");
            return false;
        }
    }
    if (length % 2 != 0) {
        refuse("Insufficient number of hex digits");
        return false;
    }
    if (length / 2 > expected - loaded) {
        say_line("e-[Too many bytes: ", expected - loaded, " are expected]");
        return false;
    }
    return true;
}

static void store(const char *text) {
    const size_t length = strlen(text);

    if (!check_bytes(text, length)) {
        return;
    }
    for (size_t i = 0; i < length; i += 2) {
        hil_mlperf.buffer[loaded++] = (uint8_t)(digit(text[i]) << 4 | digit(text[i + 1]));
    }
    if (loaded == expected) {
        say("m-load-done\r\n");
    }
}

static void on_db(const struct words *words) {
    const bool is_load = words->count > 1 && strcmp(words->at[1], "load") == 0;
    const bool is_print = words->count > 1 && strcmp(words->at[1], "print") == 0;
    const size_t most = is_print ? 4 : is_load ? 3 : 2;

    if (words->count < 2) {
        refuse("Command 'db' requires a subcommand");
    } else if (words->count > most) {
        refuse("Too many arguments");
    } else if (is_load) {
        load(words);
    } else if (is_print) {
        print(words);
    } else {
        store(words->at[1]);
    }
}

/* -- inference ------------------------------------------------------------------------------- */

static const struct hil_tensor *model_input(void) { return &hil_models[0]->inputs[0]; }
static const struct hil_tensor *model_output(void) { return &hil_models[0]->outputs[0]; }

static float loaded_float(uint32_t index) {
    float value;

    memcpy(&value, hil_mlperf.buffer + sizeof value * index, sizeof value);
    return value;
}

/* Half away from zero, as TensorFlow Lite's QUANTIZE; what is beyond the type is at its end. */
static int8_t quantize(float value) {
    const float steps = value / hil_mlperf.input_scale;
    const float rounded = steps < 0 ? steps - 0.5F : steps + 0.5F;
    /* Far beyond, where a conversion to an integer would not be defined. */
    const float bounded = rounded < -1024 ? -1024 : rounded > 1024 ? 1024 : rounded;
    const int32_t whole = (int32_t)bounded + hil_mlperf.input_zero;

    return (int8_t)(whole < INT8_MIN ? INT8_MIN : whole > INT8_MAX ? INT8_MAX : whole);
}

/* Makes the input of what was loaded, as far as that is the same for all inferences; false: it is
 * no input, and that was said. */
static bool prepare(void) {
    if (loaded != hil_mlperf.buffer_bytes) {
        say("e-[No input: ");
        say_number(loaded);
        say_line(" of ", hil_mlperf.buffer_bytes, " bytes are loaded]");
        return false;
    }
    if (hil_mlperf.wire != HIL_MLPERF_FLOAT32) {
        return true;
    }
    for (uint32_t i = 0; i < hil_mlperf.buffer_bytes / sizeof(float); ++i) {
        const float value = loaded_float(i);
        if (!(value >= -FLT_MAX && value <= FLT_MAX)) {
            say_line("e-[Input ", i, " is not a finite number]");
            return false;
        }
        if (hil_mlperf.quantized != NULL) {
            hil_mlperf.quantized[i] = quantize(value);
        }
    }
    return true;
}

/* From bytes that begin at 0 to those that begin at -128, four at a time. */
static void copy_less_128(uint8_t *to, const uint8_t *from, size_t size) {
    size_t i = 0;

    for (; i + 4 <= size; i += 4) {
        uint32_t word;
        memcpy(&word, __builtin_assume_aligned(from + i, 4), sizeof word);
        word ^= 0x80808080U;
        memcpy(__builtin_assume_aligned(to + i, 4), &word, sizeof word);
    }
    for (; i < size; ++i) {
        to[i] = from[i] ^ 0x80;
    }
}

/* A run may overwrite the input, so it is given before each one. */
static void give_input(void) {
    const struct hil_tensor *input = model_input();

    if (hil_mlperf.wire == HIL_MLPERF_UINT8) {
        copy_less_128(input->data, hil_mlperf.buffer, input->nbytes);
    } else if (hil_mlperf.quantized != NULL) {
        memcpy(input->data, hil_mlperf.quantized, input->nbytes);
    } else {
        memcpy(input->data, hil_mlperf.buffer, input->nbytes);
    }
}

static uint32_t output_count(void) {
    const struct hil_tensor *output = model_output();

    return output->nbytes / (hil_mlperf.output_scale > 0 ? 1 : (uint32_t)sizeof(float));
}

static float output_value(uint32_t index) {
    const void *data = model_output()->data;

    if (!(hil_mlperf.output_scale > 0)) {
        return ((const float *)data)[index];
    }
    const int32_t value = model_output()->dtype == HIL_INT8 ? ((const int8_t *)data)[index]
                                                            : ((const uint8_t *)data)[index];
    return hil_mlperf.output_scale * (float)(value - hil_mlperf.output_zero);
}

static void compute_score(void) {
    const uint32_t count = output_count();
    double sum = 0;

    for (uint32_t i = 0; i < count; ++i) {
        const double difference = (double)output_value(i) - (double)loaded_float(i);
        sum += difference * difference;
    }
    score = (float)(sum / count);
}

/* The wake word is the first class; in one window it is detected once. */
static void detect(void) {
    const uint32_t count = output_count();

    for (uint32_t i = 1; i < count; ++i) {
        if (output_value(i) >= output_value(0)) {
            return;
        }
    }
    if (detected < hil_mlperf.detections_max) {
        hil_mlperf.detections[detected++] =
            (uint32_t)(microseconds(hil_ticks() - streaming_from) / 1000);
    }
}

static void reset_states(void) {
#ifdef HIL_HAS_STATE
    if (hil_model_states[0] != NULL && hil_model_states[0]->reset() != 0) {
        refuse("The states of the model cannot be reset");
    }
#endif
}

/* Whether all of the runs succeeded; the first that does not is told. */
static bool run(uint32_t count) {
    for (uint32_t i = 0; i < count; ++i) {
        give_input();
        const int32_t result = hil_models[0]->run();
        if (result != 0) {
            const int64_t code = result; /* which has a magnitude also at the end of int32 */
            say_line("e-[Inference failed with code ", (uint64_t)(code < 0 ? -code : code), "]");
            return false;
        }
    }
    return true;
}

/* The runs between two times. What a monitor sees lies between what is printed. */
static bool measure(uint32_t count) {
    const uint64_t start = hil_ticks_align();

    say_time(start);
    hil_mlperf_pulse();
    const bool is_good = run(count);
    const uint64_t end = hil_ticks();
    hil_mlperf_pulse();
    say_time(end);
    return is_good;
}

static void say_results(void) {
    say("m-results-[");
    if (hil_mlperf.is_score) {
        say_float(score);
    }
    for (uint32_t i = 0; !hil_mlperf.is_score && i < output_count(); ++i) {
        say(i == 0 ? "" : ",");
        say_float(output_value(i));
    }
    say("]\r\n");
}

static void infer(uint32_t count, uint32_t warmups) {
    has_run = false;
    if (!is_streaming) {
        reset_states();
    }
    hil_guards_set();
    say_line("m-warmup-start-", warmups, "");
    if (!run(warmups)) {
        return;
    }
    say("m-warmup-done\r\n");
    say_line("m-infer-start-", count, "");
    if (!measure(count)) {
        return;
    }
    say("m-infer-done\r\n");
    if (hil_guards_changed() != 0) {
        refuse("The model wrote outside of its workspace");
        return;
    }
    has_run = true;
    if (hil_mlperf.is_score) {
        compute_score();
    }
    if (is_streaming) {
        detect();
    }
    say_results();
}

static void on_infer(const struct words *words) {
    uint32_t count;
    uint32_t warmups;

    if (words->count > 3) {
        refuse("Too many arguments");
    } else if (number_at(words, 1, 1, &count) && number_at(words, 2, WARMUPS, &warmups)) {
        if (count == 0) {
            refuse("Inference iterations must be >0");
        } else if (prepare()) {
            infer(count, warmups);
        }
    }
}

/* -- the other commands ---------------------------------------------------------------------- */

/* The host's probe stops here, at this name, to see that a line is that of its board. */
static void on_name(const struct words *words) {
    (void)words;
    say("m-name-dut-[");
    say(hil_mlperf.name);
    say("]\r\n");
}

static void on_profile(const struct words *words) {
    (void)words;
    say("m-profile-[");
    say(hil_mlperf.profile);
    say("]\r\nm-model-[");
    say(hil_mlperf.model);
    say("]\r\n");
}

static void on_timestamp(const struct words *words) {
    (void)words;
    hil_mlperf_pulse();
    say_time(hil_ticks());
}

static void on_results(const struct words *words) {
    (void)words;
    if (has_run) {
        say_results();
    } else {
        refuse("There is no result: nothing was inferred");
    }
}

static void on_help(const struct words *words) {
    (void)words;
    say("name, profile, timestamp, help\r\n"
        "db load N            expect N bytes\r\n"
        "db HH[HH]*           take bytes\r\n"
        "db print [N] [from]  print bytes\r\n"
        "infer [N=1] [W=10]   N inferences after W to warm up\r\n"
        "results              print the last result again\r\n"
        "start, stop, print_detections of a streaming model\r\n");
}

static bool can_stream(void) {
    if (hil_mlperf.detections == NULL) {
        refuse("This model does not detect in a stream");
    }
    return hil_mlperf.detections != NULL;
}

static void on_start(const struct words *words) {
    (void)words;
    if (can_stream()) {
        reset_states();
        is_streaming = true;
        detected = 0;
        streaming_from = hil_ticks();
    }
}

/* Also where nothing was started: the runner stops first. */
static void on_stop(const struct words *words) {
    (void)words;
    if (can_stream()) {
        is_streaming = false;
    }
}

static void on_print_detections(const struct words *words) {
    (void)words;
    if (can_stream()) {
        say("Detection Timestamps (ms)\r\n");
        for (uint32_t i = 0; i < detected; ++i) {
            say_line("", hil_mlperf.detections[i], ",");
        }
    }
}

static const struct {
    const char *name;                     /* the first word */
    void (*handle)(const struct words *); /* answers all but the last line */
    bool has_arguments;                   /* words may follow, which it looks at itself */
} commands[] = {
    {"name", on_name, false},           {"profile", on_profile, false},
    {"timestamp", on_timestamp, false}, {"db", on_db, true},
    {"infer", on_infer, true},          {"results", on_results, false},
    {"help", on_help, false},           {"start", on_start, false},
    {"stop", on_stop, false},           {"print_detections", on_print_detections, false},
};

static void execute(const struct words *words) {
    for (size_t i = 0; i < sizeof commands / sizeof commands[0]; ++i) {
        if (strcmp(words->at[0], commands[i].name) == 0) {
            if (words->count > 1 && !commands[i].has_arguments) {
                refuse("Too many arguments");
            } else {
                commands[i].handle(words);
            }
            return;
        }
    }
    say("e-[Unknown command: ");
    say_printable(words->at[0]);
    say("]\r\n");
}

/* Answers the command that is complete; one of no words only with the last line. */
static void answer(void) {
    if (command_size > HIL_MLPERF_COMMAND_MAX) {
        refuse("A command has 80 characters at most");
    } else {
        command[command_size] = '\0';
        const struct words words = split(command);
        if (words.count > 0) {
            execute(&words);
        }
    }
    command_size = 0;
    say("m-ready\r\n");
}

/* Ends of lines are no part of a command: terminals send them behind the `%`. */
static void push(char c) {
    if (c == '%') {
        answer();
    } else if (c != '\r' && c != '\n' && c != '\0' && command_size <= HIL_MLPERF_COMMAND_MAX) {
        if (command_size < HIL_MLPERF_COMMAND_MAX) {
            command[command_size] = c;
        }
        ++command_size;
    }
}

/* -- the interface of the server (hil_rpc.h) ------------------------------------------------- */

void hil_rpc_init(void) { say("m-init-done\r\nm-ready\r\n"); }

void hil_rpc_poll(void) {
    uint8_t received[32];
    const size_t size = hil_uart_read(received, sizeof received);

    for (size_t i = 0; i < size; ++i) {
        push((char)received[i]);
    }
}

/* The line that says so ends the answer to the command; the restart's lines follow. */
void hil_rpc_fault(const struct hil_fault *fault) {
    say("e-[Fault ");
    say_number(fault->kind);
    say_line(" at ", fault->pc, "]");
    hil_port_reset();
}

/* Nothing unasked. */
void hil_log(const char *text) { (void)text; }
