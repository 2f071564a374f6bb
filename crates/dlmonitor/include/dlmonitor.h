/* DLMonitor: a shim between profilers and deep-learning frameworks (DeepContext, section 4.1).
 *
 * A tool is loaded into the observed program (for example as a Python extension module, or with LD_PRELOAD), calls
 * dlmonitor_init, registers a callback, and is called before and after each operator. From within a callback it can
 * request the current call path.
 *
 * Callbacks run on the program's own threads, between its own instructions: they must not block, run operators, or
 * take Python's lock. All functions may be called from any thread.
 *
 * Version 2 added compilations, native frames, inputs of operators and dlmonitor_api_version. dlmonitor_frame has grown,
 * so tools must be recompiled.
 *
 * Version 3 added dlmonitor_callback_unregister, dlmonitor_outputs_enable, dlmonitor_outputs_get, DLMONITOR_NOT_FOUND and
 * DLMONITOR_RUNNING. No structure changed. Changes of behavior:
 * - dlmonitor_init works again after dlmonitor_finalize, which also unregisters all callbacks.
 * - dlmonitor_init, dlmonitor_inputs_enable and dlmonitor_outputs_enable may be called before PyTorch is loaded, and take
 *   effect when it is loaded.
 * - Strings of dlmonitor_frame live only until the callback returns, instead of for the life of the process: copy them.
 */
#ifndef DLMONITOR_H
#define DLMONITOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Version of this header; dlmonitor_api_version returns that of the library. */
#define DLMONITOR_API_VERSION 3

/* Domains of events. */
typedef enum {
    DLMONITOR_FRAMEWORK = 0, /* operators, compilations, allocations */
    DLMONITOR_GPU = 1        /* GPU APIs and kernels: not supported by this version */
} dlmonitor_domain;

typedef enum {
    DLMONITOR_OPERATOR_BEGIN = 0,
    DLMONITOR_OPERATOR_END = 1,
    DLMONITOR_ALLOCATE = 2,
    DLMONITOR_FREE = 3,
    DLMONITOR_COMPILATION_BEGIN = 4, /* torch.compile compiles a function, or at run time a part of it */
    DLMONITOR_COMPILATION_END = 5,
    DLMONITOR_PHASE_BEGIN = 6,       /* a phase of the enclosing compilation, with the compiler's name */
    DLMONITOR_PHASE_END = 7
} dlmonitor_kind;

typedef struct {
    dlmonitor_kind kind;
    const char *name;         /* name of an operator that begins, or of a compilation ("Compile 0/0: function (file:line)"
                                 with the compiler's number, "Recompile" if the function was compiled before), otherwise
                                 ""; valid until the callback returns */
    uint64_t handle;          /* identifies a call of an operator, a compilation or a phase; the same at its end */
    int64_t sequence_number;  /* number that a forward operator and its backward node share, -1 without one */
    uint64_t forward_thread;  /* PyTorch's id of the thread of a backward node's forward operator, or 0 */
    int is_backward;          /* 1 for a node of the backward graph */
    uint64_t address;         /* address of the memory that is allocated or freed, otherwise 0 */
    uint64_t bytes;           /* allocated bytes, otherwise 0 */
} dlmonitor_event;

typedef void (*dlmonitor_callback)(const dlmonitor_event *event, void *user);

/* Sources of call paths, to be combined with |. */
enum {
    DLMONITOR_PYTHON = 1,          /* Python frames */
    DLMONITOR_OPERATORS = 2,       /* open operators, compilations and phases */
    DLMONITOR_NATIVE = 4           /* native frames between the innermost Python frame, or the thread's start, and here */
};

typedef enum {
    DLMONITOR_FRAME_PYTHON = 0,
    DLMONITOR_FRAME_OPERATOR = 1,
    DLMONITOR_FRAME_NATIVE = 2,
    DLMONITOR_FRAME_COMPILATION = 3 /* a compilation or one of its phases */
} dlmonitor_frame_kind;

typedef struct {
    dlmonitor_frame_kind kind;
    const char *name;  /* function, operator or compilation, "" for a native frame; valid until the callback returns */
    const char *file;  /* file of a Python frame, or library of a native frame ("" for code that was generated at run time),
                          otherwise ""; valid until the callback returns */
    uint32_t line;     /* line of a Python frame, otherwise 0 */
    uint64_t address;  /* address within the call instruction of a native frame, otherwise 0 */
    uint64_t offset;   /* distance of the address of a native frame from the start of its library in memory, otherwise 0. The
                          symbols of the library give the function; a lookup takes too long for a callback */
} dlmonitor_frame;

/* An argument or a result of an operator. */
typedef enum {
    DLMONITOR_INPUT_TENSOR = 0,
    DLMONITOR_INPUT_TENSORS = 1, /* a list of tensors, which follow as separate entries */
    DLMONITOR_INPUT_SCALAR = 2,  /* a number or Boolean */
    DLMONITOR_INPUT_SCALARS = 3, /* a list of up to 30 numbers or Booleans */
    DLMONITOR_INPUT_OTHER = 4    /* a value without shape: None, an undefined tensor, a text, a device ... */
} dlmonitor_input_kind;

typedef struct {
    dlmonitor_input_kind kind;
    const char *dtype;   /* type of a tensor, such as "f32" or "bf16", "" if unknown; valid for the life of the process */
    const int64_t *dims; /* sizes of a tensor, NULL if it does not store them (nested and symbolic ones); valid until the
                            callback returns. NULL for other values */
    size_t length;       /* number of sizes of a tensor, or of tensors that follow in a list; otherwise 0 */
} dlmonitor_input;

typedef enum {
    DLMONITOR_OK = 0,
    DLMONITOR_IN_USE = 1,       /* another profiler uses DLMonitor in this process */
    DLMONITOR_UNSUPPORTED = 2,  /* not supported by this version */
    DLMONITOR_FULL = 3,         /* no space for another callback */
    DLMONITOR_UNAVAILABLE = 4,  /* the framework is not loaded or not supported */
    DLMONITOR_NOT_FOUND = 5,    /* no such callback is registered */
    DLMONITOR_RUNNING = 6       /* success, but the callback may still run on another thread */
} dlmonitor_status;

/* DLMONITOR_API_VERSION of the library. */
unsigned dlmonitor_api_version(void);

/* Starts the observation: reads Python frames of a supported interpreter and native frames, and reports PyTorch's operators,
 * compilations and allocations. Repeated calls change nothing; after dlmonitor_finalize the observation starts again.
 *
 * If PyTorch is not loaded, returns DLMONITOR_UNAVAILABLE and waits: operators are reported from the import of PyTorch on,
 * before the first operator runs. This works if an interpreter runs when dlmonitor_init is called, or if the interpreter is
 * linked into the program and starts later (in a constructor of an LD_PRELOAD library). It does not work for programs that
 * load libtorch without Python, or libpython with dlopen after this call: call dlmonitor_init again once PyTorch is loaded.
 * If the interpreter starts later, a Python audit hook is added, which is never removed.
 *
 * Waits for Python's lock. Returns DLMONITOR_UNSUPPORTED from within a callback. */
dlmonitor_status dlmonitor_init(void);

/* Registers `callback`, which is called with `user` for each event of `domain`. At most eight callbacks. A callback that is
 * registered twice is called twice. */
dlmonitor_status dlmonitor_callback_register(dlmonitor_domain domain, dlmonitor_callback callback, void *user);

/* Removes a callback that was registered with the same arguments. When it returns DLMONITOR_OK, the callback runs on no
 * thread and is not called again: `user` may be freed. Waits for running callbacks, at most one second; from within a
 * callback it does not wait. Returns DLMONITOR_RUNNING if the callback may still run, DLMONITOR_NOT_FOUND if no such callback
 * was registered. */
dlmonitor_status dlmonitor_callback_unregister(dlmonitor_domain domain, dlmonitor_callback callback, void *user);

/* Writes the call path of the calling thread to `frames`, outermost first, and its full length to `length`. A path longer
 * than `capacity` loses its innermost frames. Only from within a callback.
 *
 * Frames of all sources are merged: an operator is below the Python frame and the native frame that called it, and above its
 * callees. Frames of the callback and of DLMonitor are left out; so are those of PyTorch's report of the begin of an operator.
 *
 * Each thread keeps its last path: only changed frames are looked up. Python frames and operators take no lock. */
dlmonitor_status dlmonitor_callpath_get(unsigned sources, dlmonitor_frame *frames, size_t capacity, size_t *length);

/* Enables inputs of operators, which costs PyTorch some time per operator. Call it while no operator runs, preferably before
 * dlmonitor_init. Returns DLMONITOR_UNAVAILABLE if PyTorch is not loaded (it then takes effect when PyTorch is loaded), or if
 * the layout of inputs in this version is unknown: it is detected with test tensors, not assumed. dlmonitor_finalize disables
 * it. */
dlmonitor_status dlmonitor_inputs_enable(void);

/* Writes the inputs of the operator that begins to `inputs`, in the order of its arguments, and their full number to
 * `length`; inputs beyond `capacity` are left out. Only from within a callback for DLMONITOR_OPERATOR_BEGIN, after
 * dlmonitor_inputs_enable; otherwise returns DLMONITOR_UNAVAILABLE. */
dlmonitor_status dlmonitor_inputs_get(dlmonitor_input *inputs, size_t capacity, size_t *length);

/* Enables outputs of operators, as dlmonitor_inputs_enable does for inputs. PyTorch keeps them until the callbacks for the
 * end of the operator have returned. */
dlmonitor_status dlmonitor_outputs_enable(void);

/* Writes the outputs of the operator that ends to `outputs`, as dlmonitor_inputs_get does with inputs. Only from within a
 * callback for DLMONITOR_OPERATOR_END, after dlmonitor_outputs_enable; otherwise returns DLMONITOR_UNAVAILABLE. The length is
 * 0 for spans, for operators that throw and for those that began before outputs were enabled. */
dlmonitor_status dlmonitor_outputs_get(dlmonitor_input *outputs, size_t capacity, size_t *length);

/* Stops the observation and unregisters all callbacks. When it returns, no callback runs, unless it is called from within a
 * callback, or a callback blocks for longer than one second. The ends of operators in progress are not reported, also after
 * another dlmonitor_init; call paths still contain these operators. */
void dlmonitor_finalize(void);

#ifdef __cplusplus
}
#endif
#endif
