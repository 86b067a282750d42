/* What generated code calls. */
#include "check.h"
#include "host_platform.h"

#include <tvm/runtime/c_backend_api.h>
#include <tvm/runtime/crt/error_codes.h>

static void test_workspace(void) {
    void *const a = TVMBackendAllocWorkspace(kDLCPU, 0, 100, kDLInt, 8);
    void *const b = TVMBackendAllocWorkspace(kDLCPU, 0, 1, kDLFloat, 32);
    EXPECT(a != NULL && b != NULL);
    if (a != NULL) {
        memset(a, 1, 100);
    }
    EXPECT_EQ(live_blocks, 2);
    fail_after = 0;
    TVMAPISetLastError("");
    EXPECT(TVMBackendAllocWorkspace(kDLCPU, 0, 1, kDLInt, 8) == NULL);
    EXPECT(strstr(TVMGetLastError(), "workspace") != NULL);
    fail_after = -1;
    EXPECT(TVMBackendAllocWorkspace(kDLCUDA, 0, 1, kDLInt, 8) == NULL);
    EXPECT_EQ(TVMBackendFreeWorkspace(kDLCPU, 0, b), 0);
    EXPECT_EQ(TVMBackendFreeWorkspace(kDLCPU, 0, b), kTvmErrorPlatformStackAllocBadFree);
    EXPECT_EQ(TVMBackendFreeWorkspace(kDLCPU, 0, a), 0);
    EXPECT_EQ(live_blocks, 0);
}

static int task_count;
static int count_tasks(int task_id, TVMParallelGroupEnv *group, void *data) {
    EXPECT_EQ(task_id, task_count);
    EXPECT_EQ(group->num_task, *(int *)data > 0 ? *(int *)data : 1);
    task_count++;
    return task_id == 5 ? 99 : 0;
}

static void test_parallel(void) {
    static const struct {
        int tasks, run, result;
    } table[] = {{0, 1, 0}, {1, 1, 0}, {5, 5, 0}, {6, 6, 99}, {8, 6, 99}};
    for (size_t i = 0; i < sizeof table / sizeof table[0]; i++) {
        int tasks = table[i].tasks;
        task_count = 0;
        EXPECT_EQ(TVMBackendParallelLaunch(count_tasks, &tasks, tasks), table[i].result);
        EXPECT_EQ(task_count, table[i].run);
    }
    EXPECT_ERROR(TVMBackendParallelLaunch(NULL, NULL, 1), kTvmErrorFunctionCallInvalidArg, "tasks");
    EXPECT_ERROR(TVMBackendParallelLaunch(count_tasks, NULL, -1), kTvmErrorFunctionCallInvalidArg,
                 "tasks");
}

static void test_barrier(void) {
    TVMParallelGroupEnv one = {NULL, 1}, two = {NULL, 2};
    EXPECT_EQ(TVMBackendParallelBarrier(0, &one), 0);
    EXPECT_ERROR(TVMBackendParallelBarrier(0, &two), kTvmErrorFunctionCallNotImplemented, "cores");
    EXPECT_ERROR(TVMBackendParallelBarrier(1, &one), kTvmErrorFunctionCallInvalidArg, "task");
    EXPECT_ERROR(TVMBackendParallelBarrier(-1, &one), kTvmErrorFunctionCallInvalidArg, "task");
    EXPECT_ERROR(TVMBackendParallelBarrier(0, NULL), kTvmErrorFunctionCallInvalidArg, "task");
}

static int once(void *data) { return (*(int *)data)++ == 0 ? -7 : 0; }

static void test_run_once(void) {
    void *handle = NULL;
    int calls = 0;
    EXPECT_EQ(TVMBackendRunOnce(&handle, once, &calls, sizeof calls), -7);
    EXPECT(handle == NULL); /* it failed: it runs again */
    EXPECT_EQ(TVMBackendRunOnce(&handle, once, &calls, sizeof calls), 0);
    EXPECT_EQ(TVMBackendRunOnce(&handle, once, &calls, sizeof calls), 0);
    EXPECT_EQ(calls, 2);
    EXPECT_EQ(TVMBackendRunOnce(NULL, once, &calls, 0), kTvmErrorFunctionCallInvalidArg);
    EXPECT_EQ(TVMBackendRunOnce(&handle, NULL, &calls, 0), kTvmErrorFunctionCallInvalidArg);
}

static void test_registration(void) {
    int x;
    EXPECT_ERROR(TVMBackendRegisterSystemLibSymbol("f", &x), kTvmErrorFunctionCallNotImplemented,
                 "f");
    EXPECT_ERROR(TVMBackendRegisterEnvCAPI("f", &x), kTvmErrorFunctionCallNotImplemented, "f");
}

static void test_last_error(void) {
    char longer[1000];
    memset(longer, 'x', sizeof longer);
    longer[sizeof longer - 1] = '\0';
    TVMAPISetLastError("short");
    EXPECT(strcmp(TVMGetLastError(), "short") == 0);
    TVMAPISetLastError(longer);
    const size_t kept = strlen(TVMGetLastError());
    EXPECT(kept >= 64 && kept < sizeof longer);
    TVMAPISetLastError(NULL);
    EXPECT(strcmp(TVMGetLastError(), "") == 0);
}

int main(void) {
    test_workspace();
    test_parallel();
    test_barrier();
    test_run_once();
    test_registration();
    test_last_error();
    return failures != 0;
}
