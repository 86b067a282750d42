/* The application on an Arduino Nano 33 BLE Sense, with its microphone. */
#include <Keywords.h>
#include <PDM.h>

#include "port.h"
#include "spotter.h"

/* Samples that the microphone gave and the application has not read: a quarter of a second. */
static const uint32_t ROOM = 4096;
static int16_t buffer[ROOM];
/* Numbers of samples since the start: only the interrupt writes the first one. */
static volatile uint32_t received, lost;
static uint32_t taken;

/* Called in an interrupt, when the microphone has samples. */
static void receive() {
    static int16_t samples[256];
    int bytes = PDM.available();

    if (bytes > (int)sizeof samples) {
        bytes = sizeof samples;
    }
    uint32_t count = PDM.read(samples, bytes) / sizeof samples[0];
    for (uint32_t i = 0; i < count; ++i) {
        if (received - taken == ROOM) {
            ++lost;
        } else {
            buffer[received % ROOM] = samples[i];
            ++received;
        }
    }
}

size_t audio_read(int16_t *samples, size_t count) {
    while (received - taken < count) {
        delay(1);
    }
    for (size_t i = 0; i < count; ++i) {
        samples[i] = buffer[taken % ROOM];
        ++taken;
    }
    return count;
}

void console_write(const char *text) { Serial.print(text); }

void setup() {
    Serial.begin(115200);
    while (!Serial && millis() < 5000) {
        /* USB needs a moment */
    }
    PDM.onReceive(receive);
    if (!PDM.begin(1, 16000)) {
        console_write("error: the microphone does not start\n");
        for (;;) {
            delay(1000);
        }
    }
    if (spotter_start() != 0) {
        for (;;) {
            delay(1000);
        }
    }
}

void loop() {
    if (lost != 0) {
        console_write("error: sound was lost: the core is too slow\n");
        lost = 0;
    }
    if (spotter_step() < 0) {
        for (;;) {
            delay(1000);
        }
    }
}
