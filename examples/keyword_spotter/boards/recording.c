/* A recording that is linked into the program, in place of a microphone: with one, replace this
 * file by the driver of its interface (I2S, PDM or an A/D converter), with a buffer that an
 * interrupt or DMA fills. */
#include <string.h>

#include "port.h"

extern const int16_t recording_start[], recording_end[];

size_t audio_read(int16_t *samples, size_t count) {
    static size_t position;
    size_t left = (size_t)(recording_end - recording_start) - position;

    if (count > left) {
        count = left;
    }
    memcpy(samples, recording_start + position, count * sizeof *samples);
    position += count;
    return count;
}
