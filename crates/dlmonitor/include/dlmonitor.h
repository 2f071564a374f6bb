/* DLMonitor: a shim between profilers and deep-learning frameworks (DeepContext, section 4.1).
 *
 * A tool is loaded into the program that it watches (for example as a Python extension module, or with LD_PRELOAD),
 * calls dlmonitor_init, registers a callback, and is called before and after each operator. From within a callback it
 * may ask for the call path that leads there.
 *
 * Callbacks run on the program's own threads, between its own instructions: they must not block, run operators, or
 * take Python's lock. All functions may be called from any thread.
 *
 * Version 2 added compilations, native frames, inputs of operators and dlmonitor_api_version; dlmonitor_frame is larger
 * than it was, so that tools have to be compiled anew.
 *
 * Version 3 added dlmonitor_callback_unregister, dlmonitor_outputs_enable, dlmonitor_outputs_get, DLMONITOR_NOT_FOUND and
 * DLMONITOR_RUNNING. No structure changed. Changes of meaning:
 * - dlmonitor_init works again after dlmonitor_finalize, which also unregisters all callbacks.
 * - dlmonitor_init, dlmonitor_inputs_enable and dlmonitor_outputs_enable may be called before PyTorch is loaded, and take
 *   effect when it is.
 * - Strings of dlmonitor_frame live until the callback returns, no longer for the life of the process: copy them.
 */
#ifndef DLMONITOR_H
#define DLMONITOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this header describes; dlmonitor_api_version returns that of the library. */
#define DLMONITOR_API_VERSION 3

/* What happens where. */
typedef enum {
    DLMONITOR_FRAMEWORK = 0, /* operators, compilations, allocations */
    DLMONITOR_GPU = 1        /* GPU APIs and kernels: refused by this version */
} dlmonitor_domain;

typedef enum {
    DLMONITOR_OPERATOR_BEGIN = 0,
    DLMONITOR_OPERATOR_END = 1,
    DLMONITOR_ALLOCATE = 2,
    DLMONITOR_FREE = 3,
    DLMONITOR_COMPILATION_BEGIN = 4, /* torch.compile compiles a function, or a part of it that it met when it ran */
    DLMONITOR_COMPILATION_END = 5,
    DLMONITOR_PHASE_BEGIN = 6,       /* a phase of the compilation around it, by the compiler's own name */
    DLMONITOR_PHASE_END = 7
} dlmonitor_kind;

typedef struct {
    dlmonitor_kind kind;
    const char *name;         /* of an operator that begins, and of what is compiled ("Compile 0/0: function (file:line)"
                                 with the compiler's number, "Recompile" if the function was compiled before), otherwise
                                 ""; lives as long as the callback */
    uint64_t handle;          /* tells an operator call, a compilation or a phase from others; the same at its end */
    int64_t sequence_number;  /* what a forward operator and its backward node share, -1 if there is none */
    uint64_t forward_thread;  /* PyTorch's id of the thread of a backward node's forward operator, or 0 */
    int is_backward;          /* whether this is a node of the backward graph */
    uint64_t address;         /* of the memory that is allocated or freed, otherwise 0 */
    uint64_t bytes;           /* that are allocated, otherwise 0 */
} dlmonitor_event;

typedef void (*dlmonitor_callback)(const dlmonitor_event *event, void *user);

/* Sources of call paths, to be combined with |. */
enum {
    DLMONITOR_PYTHON = 1,          /* Python frames */
    DLMONITOR_OPERATORS = 2,       /* open operators, compilations and phases */
    DLMONITOR_NATIVE = 4           /* native frames between here and the innermost Python frame, or the thread's begin */
};

typedef enum {
    DLMONITOR_FRAME_PYTHON = 0,
    DLMONITOR_FRAME_OPERATOR = 1,
    DLMONITOR_FRAME_NATIVE = 2,
    DLMONITOR_FRAME_COMPILATION = 3 /* a compilation, or a phase of one */
} dlmonitor_frame_kind;

typedef struct {
    dlmonitor_frame_kind kind;
    const char *name;  /* function, operator or compilation, "" of a native frame; lives until the callback returns */
    const char *file;  /* of a Python frame; of a native frame the library, "" for code made at run time; otherwise "";
                          lives until the callback returns */
    uint32_t line;     /* of a Python frame, otherwise 0 */
    uint64_t address;  /* of a native frame: within the call that it waits for, otherwise 0 */
    uint64_t offset;   /* of a native frame: how far its address is from where the library begins in memory, otherwise 0;
                          its symbols tell the function, which takes too long within a callback */
} dlmonitor_frame;

/* An argument or a result of an operator. */
typedef enum {
    DLMONITOR_INPUT_TENSOR = 0,
    DLMONITOR_INPUT_TENSORS = 1, /* a list of tensors; they follow, one by one */
    DLMONITOR_INPUT_SCALAR = 2,  /* a number or a truth value */
    DLMONITOR_INPUT_SCALARS = 3, /* a list of up to 30 of them */
    DLMONITOR_INPUT_OTHER = 4    /* what has no shape: nothing, a tensor that is not defined, a text, a device ... */
} dlmonitor_input_kind;

typedef struct {
    dlmonitor_input_kind kind;
    const char *dtype;   /* of a tensor, such as "f32" or "bf16", "" if it has no name here; lives as long as the process */
    const int64_t *dims; /* sizes of a tensor, NULL if it does not hold them itself (nested and symbolic ones); live as
                            long as the callback. NULL of anything else */
    size_t length;       /* number of sizes of a tensor, or of tensors that follow in a list; otherwise 0 */
} dlmonitor_input;

typedef enum {
    DLMONITOR_OK = 0,
    DLMONITOR_IN_USE = 1,       /* another profiler uses DLMonitor in this process */
    DLMONITOR_UNSUPPORTED = 2,  /* this version cannot do that */
    DLMONITOR_FULL = 3,         /* no room for another callback */
    DLMONITOR_UNAVAILABLE = 4,  /* the framework is not loaded, or not known */
    DLMONITOR_NOT_FOUND = 5,    /* no such callback is registered */
    DLMONITOR_RUNNING = 6       /* done, but the callback may still be running on another thread */
} dlmonitor_status;

/* DLMONITOR_API_VERSION as the library was compiled. */
unsigned dlmonitor_api_version(void);

/* Starts to watch: reads Python frames if there is an interpreter that it knows, and native frames, and reports PyTorch's
 * operators, compilations and allocations. What is on stays on; after dlmonitor_finalize it starts anew.
 *
 * If PyTorch is not loaded, returns DLMONITOR_UNAVAILABLE and waits: operators are reported from the moment on that the
 * program imports PyTorch, before the first operator runs. This works if an interpreter runs when dlmonitor_init is called,
 * or if the interpreter is linked into the program and starts later (a constructor of a library of LD_PRELOAD). It does not
 * work for programs that load libtorch without Python, or libpython with dlopen after this call: call dlmonitor_init again
 * once PyTorch is loaded. Where the interpreter starts later, a Python audit hook is added, which stays.
 *
 * Waits for Python's lock. Returns DLMONITOR_UNSUPPORTED from within a callback. */
dlmonitor_status dlmonitor_init(void);

/* Has `callback` called with `user` for everything that happens in `domain`. At most eight callbacks. Registering the same
 * callback twice has it called twice. */
dlmonitor_status dlmonitor_callback_register(dlmonitor_domain domain, dlmonitor_callback callback, void *user);

/* Unregisters what was registered with the same arguments. When it returns DLMONITOR_OK, the callback runs on no thread and
 * is not called again: `user` may be freed. Waits for callbacks that run, at most a second; from within a callback it does
 * not wait. Returns DLMONITOR_RUNNING if the callback may still be running, DLMONITOR_NOT_FOUND if nothing was registered. */
dlmonitor_status dlmonitor_callback_unregister(dlmonitor_domain domain, dlmonitor_callback callback, void *user);

/* Writes the call path of the calling thread to `frames`, outermost first, and its whole length to `length`. A path
 * longer than `capacity` loses its innermost frames. Only from within a callback.
 *
 * Sources are integrated: an operator stands below the Python frame and the native frame that called it and above what it
 * calls. Frames of the callback and of DLMonitor are left out; so are those of the operator's begin when it begins.
 *
 * Each thread keeps its last path: only frames that changed are looked up. Python frames and operators take no lock. */
dlmonitor_status dlmonitor_callpath_get(unsigned sources, dlmonitor_frame *frames, size_t capacity, size_t *length);

/* Has PyTorch hand over the inputs of operators, which costs it some time for each. Call it while no operator runs,
 * best before dlmonitor_init. Returns DLMONITOR_UNAVAILABLE if PyTorch is not loaded (then it takes effect when PyTorch is),
 * or if it is not known where this version keeps its inputs: that is found out with tensors of our own, not assumed.
 * dlmonitor_finalize ends it. */
dlmonitor_status dlmonitor_inputs_enable(void);

/* Writes the inputs of the operator that begins to `inputs`, in the order of its arguments, and their whole number to
 * `length`; those beyond `capacity` are left out. Only from within a callback for DLMONITOR_OPERATOR_BEGIN, after
 * dlmonitor_inputs_enable; otherwise DLMONITOR_UNAVAILABLE. */
dlmonitor_status dlmonitor_inputs_get(dlmonitor_input *inputs, size_t capacity, size_t *length);

/* The same for the outputs of operators. PyTorch keeps them until the callbacks for the end of the operator returned. */
dlmonitor_status dlmonitor_outputs_enable(void);

/* Writes the outputs of the operator that ends to `outputs`, as dlmonitor_inputs_get does with inputs. Only from within a
 * callback for DLMONITOR_OPERATOR_END, after dlmonitor_outputs_enable; otherwise DLMONITOR_UNAVAILABLE. The length is 0 for
 * spans, for operators that throw and for those that began before outputs were enabled. */
dlmonitor_status dlmonitor_outputs_get(dlmonitor_input *outputs, size_t capacity, size_t *length);

/* Stops everything and unregisters all callbacks. None runs any more when it returns, unless it is called from within one
 * or one blocks for longer than a second. Operators that run at this moment are not reported any more, also after another
 * dlmonitor_init; but call paths still hold them. */
void dlmonitor_finalize(void);

#ifdef __cplusplus
}
#endif
#endif
