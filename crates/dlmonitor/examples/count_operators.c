/* A profiler in eighty lines on top of DLMonitor: counts operators, and prints where the first matrix product was called
 * and with what.
 *
 *     cc -shared -fPIC -I include examples/count_operators.c -L ../../target/release -ldlmonitor -o libcount.so
 *     python -c 'import ctypes, torch; count = ctypes.CDLL("./libcount.so"); count.begin(); torch.ones(3) + 1; count.report()'
 */
#include "dlmonitor.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static atomic_long operators, allocations;
static atomic_int path_wanted = 1;
static char path[4096], shapes[4096];

static void note_path(void) {
    dlmonitor_frame frames[64];
    size_t length = 0, at = 0;
    if (dlmonitor_callpath_get(DLMONITOR_PYTHON | DLMONITOR_OPERATORS, frames, 64, &length) != DLMONITOR_OK)
        return;
    for (size_t i = 0; i < length && i < 64 && at < sizeof path; i++) {
        int python = frames[i].kind == DLMONITOR_FRAME_PYTHON;
        at += (size_t)snprintf(path + at, sizeof path - at, python ? "%s:%u > " : "%s", frames[i].name, frames[i].line);
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
    if (event->kind == DLMONITOR_ALLOCATE)
        atomic_fetch_add(&allocations, 1);
    if (event->kind != DLMONITOR_OPERATOR_BEGIN)
        return;
    atomic_fetch_add(&operators, 1);
    if (strcmp(event->name, "aten::mm") == 0 && atomic_exchange(&path_wanted, 0)) {
        note_path();
        note_inputs();
    }
}

int begin(void) {
    dlmonitor_status status = dlmonitor_inputs_enable();
    if (status != DLMONITOR_OK)
        fputs("the inputs of operators are not known\n", stderr);
    status = dlmonitor_init();
    return status == DLMONITOR_OK ? (int)dlmonitor_callback_register(DLMONITOR_FRAMEWORK, on_event, NULL) : (int)status;
}

void report(void) {
    dlmonitor_finalize();
    printf("%ld operators, %ld allocations\nfirst aten::mm: %s\ncalled with%s\n", operators, allocations, path, shapes);
    fflush(stdout);
}
