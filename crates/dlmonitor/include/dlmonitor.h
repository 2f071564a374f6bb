/* DLMonitor: a shim between profilers and deep-learning frameworks (DeepContext, section 4.1).
 *
 * A tool is loaded into the program that it watches (for example as a Python extension module, or with LD_PRELOAD),
 * calls dlmonitor_init, registers a callback, and is called before and after each operator. From within a callback it
 * may ask for the call path that leads there.
 *
 * Callbacks run on the program's own threads, between its own instructions: they must not block, run operators, or
 * take Python's lock. All functions may be called from any thread.
 *
 * Version 2 added compilations, native frames and dlmonitor_api_version; dlmonitor_frame is larger than it was, so that
 * tools have to be compiled anew.
 */
#ifndef DLMONITOR_H
#define DLMONITOR_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* What this header describes; dlmonitor_api_version returns that of the library. */
#define DLMONITOR_API_VERSION 2

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
    const char *name;  /* function, operator or compilation, "" of a native frame; lives as long as the process */
    const char *file;  /* of a Python frame; of a native frame the library, "" for code made at run time; otherwise "";
                          lives as long as the process */
    uint32_t line;     /* of a Python frame, otherwise 0 */
    uint64_t address;  /* of a native frame: within the call that it waits for, otherwise 0 */
    uint64_t offset;   /* of a native frame: how far its address is from where the library begins in memory, otherwise 0;
                          its symbols tell the function, which takes too long within a callback */
} dlmonitor_frame;

typedef enum {
    DLMONITOR_OK = 0,
    DLMONITOR_IN_USE = 1,       /* another profiler uses DLMonitor in this process */
    DLMONITOR_UNSUPPORTED = 2,  /* this version cannot do that */
    DLMONITOR_FULL = 3,         /* no room for another callback */
    DLMONITOR_UNAVAILABLE = 4   /* the framework is not loaded, or not known */
} dlmonitor_status;

/* DLMONITOR_API_VERSION as the library was compiled. */
unsigned dlmonitor_api_version(void);

/* Starts to watch: reads Python frames if there is an interpreter that it knows, and native frames, and reports PyTorch's
 * operators, compilations and allocations if PyTorch is loaded. Call it again once PyTorch has been imported; what is on
 * stays on. Returns DLMONITOR_UNAVAILABLE as long as PyTorch is not loaded. Waits for Python's lock. */
dlmonitor_status dlmonitor_init(void);

/* Has `callback` called with `user` for everything that happens in `domain`. At most eight callbacks. */
dlmonitor_status dlmonitor_callback_register(dlmonitor_domain domain, dlmonitor_callback callback, void *user);

/* Writes the call path of the calling thread to `frames`, outermost first, and its whole length to `length`. A path
 * longer than `capacity` loses its innermost frames. Only from within a callback.
 *
 * Sources are integrated: an operator stands below the Python frame and the native frame that called it and above what it
 * calls. Frames of the callback and of DLMonitor are left out; so are those of the operator's begin when it begins. */
dlmonitor_status dlmonitor_callpath_get(unsigned sources, dlmonitor_frame *frames, size_t capacity, size_t *length);

/* Stops all callbacks. */
void dlmonitor_finalize(void);

#ifdef __cplusplus
}
#endif
#endif
