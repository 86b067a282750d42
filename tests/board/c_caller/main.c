/* An application with two models, which knows nothing but their generated headers. Both run in
 * turn on changing inputs; every output goes to the console as hexadecimal digits. */
#include "board.h"
#include "tvmgen_ad.h"
#include "tvmgen_kws.h"

enum { TURNS = 3 };

static void fill(int8_t *input, int size, int seed) {
    for (int i = 0; i < size; ++i) {
        input[i] = (int8_t)((i * 37 + seed * 101) % 256 - 128);
    }
}

int main(void) {
    static int8_t kws_in[TVMGEN_KWS_INPUT_1_SIZE], kws_out[TVMGEN_KWS_IDENTITY_SIZE];
    static int8_t ad_in[TVMGEN_AD_INPUT_1_SIZE], ad_out[TVMGEN_AD_IDENTITY_SIZE];
    struct tvmgen_kws_inputs kws_inputs = {.input_1 = kws_in};
    struct tvmgen_kws_outputs kws_outputs = {.Identity = kws_out};
    struct tvmgen_ad_inputs ad_inputs = {.input_1 = ad_in};
    struct tvmgen_ad_outputs ad_outputs = {.Identity = ad_out};

    for (int turn = 0; turn < TURNS; ++turn) {
        fill(kws_in, sizeof kws_in, turn);
        fill(ad_in, sizeof ad_in, turn);
        if (tvmgen_kws_run(&kws_inputs, &kws_outputs) != 0 ||
            tvmgen_ad_run(&ad_inputs, &ad_outputs) != 0) {
            return 1;
        }
        board_print("kws", kws_out, sizeof kws_out);
        board_print("ad", ad_out, sizeof ad_out);
    }
    return 0;
}
