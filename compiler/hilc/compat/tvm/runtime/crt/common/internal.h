/* What the parts of the C run time share; nobody else includes it. */
#ifndef HIL_CRT_INTERNAL_H
#define HIL_CRT_INTERNAL_H

#include <tvm/runtime/crt/error_codes.h>
#include <tvm/runtime/crt/func_registry.h>
#include <tvm/runtime/crt/module.h>

/* Keep the sentence and, unless NULL, what it is about as the last error; returns the code. */
int hil_crt_fail(tvm_crt_error_t code, const char *sentence, const char *about);

/* Forget all modules; take the table of global functions. */
void hil_crt_reset(const TVMMutableFuncRegistry *globals);

/* The module that a handle means, NULL for other values. */
const TVMModule *hil_crt_module(TVMModuleHandle handle);

/* The function handles with this module index are runtime.RPCTimeEvaluator's. */
#define HIL_CRT_TIME_EVALUATOR_MODULE 0x7fffU
TVMFunctionHandle hil_crt_function_handle(unsigned module_index, unsigned function_index);

/* Functions with these handles are called by handler(function_index, ...). */
typedef int (*hil_crt_evaluator)(unsigned function_index, TVMValue *args, int *type_codes,
                                 int num_args, TVMValue *ret_val, int *ret_tcode);
void hil_crt_set_evaluator(hil_crt_evaluator handler);

/* runtime.RPCTimeEvaluator. */
int hil_crt_time_evaluator(TVMValue *args, int *type_codes, int num_args, TVMValue *ret_val,
                           int *ret_tcode, void *resource_handle);

#endif
