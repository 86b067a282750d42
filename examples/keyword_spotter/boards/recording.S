/* The recording, RECORDING: the samples of a WAV file (one channel, 16 bits, 16 kHz), whose header has
 * 44 bytes. */
    .section .rodata.recording, "a"
    .balign 4
    .global recording_start, recording_end
recording_start:
    .incbin RECORDING, 44
recording_end:

#ifdef __linux__
    .section .note.GNU-stack, "", %progbits
#endif
