/* Runs inputs without libFuzzer: replay FILE...; the last one that is named broke the server. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "fuzz.h"

enum { SECONDS_EACH = 20 };

static uint8_t input[1024 * 1024];

static void run_file(const char *path) {
    FILE *file = fopen(path, "rb");

    if (file == NULL) {
        perror(path);
        exit(2);
    }
    const size_t size = fread(input, 1, sizeof input, file);
    const bool is_whole = fgetc(file) == EOF;
    fclose(file);
    if (!is_whole) {
        fprintf(stderr, "%s: longer than %zu bytes\n", path, sizeof input);
        exit(2);
    }
    fprintf(stderr, "%s\n", path);
    (void)alarm(SECONDS_EACH);
    LLVMFuzzerTestOneInput(input, size);
}

int main(int argc, char **argv) {
    LLVMFuzzerInitialize(&argc, &argv);
    for (int i = 1; i < argc; ++i) {
        run_file(argv[i]);
    }
    printf("%d inputs\n", argc - 1);
    return 0;
}
