/* Tests of filter.c whose output has the form of Zephyr's ztest with CONFIG_ZTEST_SUMMARY=y. Zephyr
 * itself is not in this repository: there, ZTEST and zassert_equal print the same lines. */
#include "board.h"
#include "filter.h"

#define RULE "===================================================================\n"

static int passed, failed;

static void check(const char *name, int expected, int actual) {
    put_text("START - ");
    put_text(name);
    put_char('\n');
    if (expected == actual) {
        ++passed;
        put_text(" PASS - ");
    } else {
        ++failed;
        put_text("\n    Assertion failed at ztest_app.c: ");
        put_text(name);
        put_text(": expected ");
        put_number(expected);
        put_text(", was ");
        put_number(actual);
        put_text("\n FAIL - ");
    }
    put_text(name);
    put_text(" in 0.001 seconds\n" RULE);
}

void app(void) {
    static const int numbers[] = {1, 2, 6};

    put_text("*** Booting Zephyr OS build v3.7.0 ***\nRunning TESTSUITE filter\n" RULE);
    check("test_clamp_above", 5, clamp(7, 0, 5));
#ifdef WRONG
    check("test_clamp_below", 1, clamp(-7, 0, 5));
#endif
    check("test_mean", 3, mean(numbers, 3));
    put_text(failed ? "TESTSUITE filter failed.\n" : "TESTSUITE filter succeeded\n");
    put_text("\n------ TESTSUITE SUMMARY START ------\n\nSUITE ");
    put_text(failed ? "FAIL" : "PASS");
    put_text(" - 100.00% [filter]: pass = ");
    put_number(passed);
    put_text(", fail = ");
    put_number(failed);
    put_text(", skip = 0, total = ");
    put_number(passed + failed);
    put_text(" duration = 0.002 seconds\n\n------ TESTSUITE SUMMARY END ------\n\n" RULE);
    put_text(failed ? "PROJECT EXECUTION FAILED\n" : "PROJECT EXECUTION SUCCESSFUL\n");
}
