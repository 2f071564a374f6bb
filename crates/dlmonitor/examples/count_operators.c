/* A small profiler on top of DLMonitor: counts operators and compilations, and prints the inputs and the call path of the first
 * matrix product, with Python frames, operators and native frames.
 *
 *     cc -shared -fPIC -I include examples/count_operators.c -L ../../target/release -ldlmonitor -o libcount.so
 *     python -c 'import ctypes, torch; count = ctypes.CDLL("./libcount.so"); count.begin(); torch.ones(3) + 1; count.report()'
 */
#include "dlmonitor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_long operators, allocations, compilations, running;
static atomic_int path_wanted = 1;
static char path[8192], shapes[4096], compiled[256];

static void note_path(void) {
    dlmonitor_frame frames[128];
    size_t length = 0, at = 0;
    if (dlmonitor_callpath_get(DLMONITOR_PYTHON | DLMONITOR_OPERATORS | DLMONITOR_NATIVE, frames, 128, &length) !=
        DLMONITOR_OK)
        return;
    for (size_t i = 0; i < length && i < 128 && at < sizeof path; i++) {
        const dlmonitor_frame *frame = &frames[i];
        const char *folder = strrchr(frame->file, '/'), *file = folder ? folder + 1 : frame->file;
        size_t room = sizeof path - at;
        if (frame->kind == DLMONITOR_FRAME_PYTHON)
            at += (size_t)snprintf(path + at, room, " > %s:%u", frame->name, frame->line);
        else if (frame->kind == DLMONITOR_FRAME_NATIVE)
            at += (size_t)snprintf(path + at, room, " > %s+%#llx", file, (unsigned long long)frame->offset);
        else
            at += (size_t)snprintf(path + at, room, " > %s", frame->name);
    }
}

static void note_inputs(void) {
    dlmonitor_input inputs[64];
    size_t length = 0, at = 0;
    if (dlmonitor_inputs_get(inputs, 64, &length) != DLMONITOR_OK)
        return;
    for (size_t i = 0; i < length && i < 64 && at < sizeof shapes; i++) {
        at += (size_t)snprintf(shapes + at, sizeof shapes - at, " %d:%s", (int)inputs[i].kind, inputs[i].dtype);
        for (size_t dim = 0; inputs[i].dims && dim < inputs[i].length && at < sizeof shapes; dim++)
            at += (size_t)snprintf(shapes + at, sizeof shapes - at, "%c%lld", dim ? 'x' : '=', (long long)inputs[i].dims[dim]);
    }
}

static void on_event(const dlmonitor_event *event, void *user) {
    (void)user;
    switch (event->kind) {
    case DLMONITOR_ALLOCATE:
        atomic_fetch_add(&allocations, 1);
        break;
    case DLMONITOR_COMPILATION_BEGIN:
        atomic_fetch_add(&running, 1);
        break;
    case DLMONITOR_COMPILATION_END:
        atomic_fetch_sub(&running, 1);
        atomic_fetch_add(&compilations, 1);
        snprintf(compiled, sizeof compiled, "%s", event->name);
        break;
    case DLMONITOR_OPERATOR_BEGIN:
        atomic_fetch_add(&operators, 1);
        if (strcmp(event->name, "aten::mm") == 0 && atomic_exchange(&path_wanted, 0)) {
            note_path();
            note_inputs();
        }
        break;
    default:
        break;
    }
}

int begin(void) {
    if (dlmonitor_api_version() != DLMONITOR_API_VERSION)
        return -1;
    dlmonitor_status status = dlmonitor_inputs_enable();
    if (status != DLMONITOR_OK)
        fputs("the inputs of operators are not known\n", stderr);
    status = dlmonitor_init();
    return status == DLMONITOR_OK ? (int)dlmonitor_callback_register(DLMONITOR_FRAMEWORK, on_event, NULL) : (int)status;
}

void report(void) {
    dlmonitor_finalize();
    printf("%ld operators, %ld allocations\nfirst aten::mm:%s\ncalled with%s\n", operators, allocations, path, shapes);
    printf("%ld compilations, %ld of them unfinished; last: %s\n", compilations + running, running, compiled);
    fflush(stdout);
}
