/* Calls of functions that were found by name. */
#include <tvm/runtime/crt/packed_func.h>

#include "internal.h"

#include <string.h>

TVMArgs TVMArgs_Create(TVMValue *values, uint32_t *tcodes, uint32_t values_count) {
    TVMArgs args;
    memset(&args, 0, sizeof args);
    args.values_count = values_count;
    if (values_count > TVM_CRT_MAX_ARGS) {
        hil_crt_fail(kTvmErrorFunctionCallNumArguments,
                     "too many arguments, raise TVM_CRT_MAX_ARGS", NULL);
        return args;
    }
    for (uint32_t i = 0; i < values_count; i++) {
        args.values[i] = values[i];
        args.tcodes[i] = (int)tcodes[i];
    }
    return args;
}

TVMModuleHandle TVMArgs_AsModuleHandle(const TVMArgs *args, size_t index) {
    if (index >= args->values_count || index >= TVM_CRT_MAX_ARGS ||
        args->tcodes[index] != kTVMModuleHandle) {
        hil_crt_fail(kTvmErrorFunctionCallWrongArgType, "the argument is not a module", NULL);
        return NULL;
    }
    return args->values[index].v_handle;
}

void TVMPackedFunc_SetArgs(TVMPackedFunc *pf, const TVMArgs *args) {
    if (args != NULL) {
        pf->args = *args;
    } else {
        memset(&pf->args, 0, sizeof pf->args);
    }
}

/* Everything but the function itself. */
static int init(TVMPackedFunc *pf, const char *name, const TVMArgs *args) {
    memset(pf, 0, sizeof *pf);
    pf->Call = TVMPackedFunc_Call;
    pf->SetArgs = TVMPackedFunc_SetArgs;
    if (name == NULL || strlen(name) >= sizeof pf->name) {
        return hil_crt_fail(kTvmErrorFunctionCallInvalidArg,
                            "a function's name has 1 to 199 characters, not as", name);
    }
    strcpy(pf->name, name);
    TVMPackedFunc_SetArgs(pf, args);
    return 0;
}

int TVMPackedFunc_InitGlobalFunc(TVMPackedFunc *pf, const char *name, const TVMArgs *args) {
    int err = init(pf, name, args);
    if (err == 0) {
        err = TVMFuncGetGlobal(name, &pf->fexec);
    }
    if (err == 0 && pf->fexec == NULL) {
        err = hil_crt_fail(kTvmErrorFunctionNameNotFound, "no such global function", name);
    }
    return err;
}

int TVMPackedFunc_InitModuleFunc(TVMPackedFunc *pf, TVMModuleHandle module, const char *name,
                                 const TVMArgs *args) {
    const int err = init(pf, name, args);
    return err != 0 ? err : TVMModGetFunction(module, name, 0, &pf->fexec);
}

int TVMPackedFunc_Call(TVMPackedFunc *pf) {
    pf->ret_value.values_count = 0;
    if (pf->args.values_count > TVM_CRT_MAX_ARGS) {
        return hil_crt_fail(kTvmErrorFunctionCallNumArguments,
                            "too many arguments, raise TVM_CRT_MAX_ARGS, for", pf->name);
    }
    const int err =
        TVMFuncCall(pf->fexec, pf->args.values, pf->args.tcodes, (int)pf->args.values_count,
                    &pf->ret_value.values[0], &pf->ret_value.tcodes[0]);
    pf->ret_value.values_count = err == 0 ? 1 : 0;
    return err;
}
