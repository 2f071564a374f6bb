/* A tool for tests of the C interface: counts the events of its callbacks, and keeps the last path of each thread as text. */
#include "dlmonitor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

typedef struct {
    atomic_long begins, ends, spans, unmatched, running;
} counts;

static counts sets[2];
static __thread char path[1 << 16], results[4096];
static __thread long open_begins;
static atomic_int paths_wanted, outputs_wanted;

static void note_path(void) {
    static __thread dlmonitor_frame frames[1200];
    size_t length = 0, at = 0;
    path[0] = 0;
    if (dlmonitor_callpath_get(DLMONITOR_PYTHON | DLMONITOR_OPERATORS, frames, 1200, &length) != DLMONITOR_OK)
        return;
    for (size_t i = 0; i < length && i < 1200 && at < sizeof path - 300; i++) {
        const dlmonitor_frame *frame = &frames[i];
        if (frame->kind == DLMONITOR_FRAME_PYTHON)
            at += (size_t)snprintf(path + at, sizeof path - at, "%.200s:%u|", frame->name, frame->line);
        else
            at += (size_t)snprintf(path + at, sizeof path - at, "[%.200s]|", frame->name);
    }
}

static void note_outputs(void) {
    dlmonitor_input outputs[16];
    size_t length = 0, at = 0;
    dlmonitor_status status = dlmonitor_outputs_get(outputs, 16, &length);
    if (status != DLMONITOR_OK) {
        snprintf(results, sizeof results, "status %d", (int)status);
        return;
    }
    results[0] = 0;
    for (size_t i = 0; i < length && i < 16 && at < sizeof results - 200; i++) {
        at += (size_t)snprintf(results + at, sizeof results - at, "%d:%s", (int)outputs[i].kind, outputs[i].dtype);
        for (size_t dim = 0; outputs[i].dims && dim < outputs[i].length; dim++)
            at += (size_t)snprintf(results + at, sizeof results - at, "%c%lld", dim ? 'x' : '=', (long long)outputs[i].dims[dim]);
        at += (size_t)snprintf(results + at, sizeof results - at, ";");
    }
}

static void on_event(const dlmonitor_event *event, void *user) {
    counts *set = user;
    if (event->kind == DLMONITOR_OPERATOR_BEGIN) {
        atomic_fetch_add(&set->begins, 1);
        atomic_fetch_add(&set->spans, strncmp(event->name, "iteration ", 10) == 0);
        open_begins++;
        if (paths_wanted)
            note_path();
    } else if (event->kind == DLMONITOR_OPERATOR_END) {
        atomic_fetch_add(&set->ends, 1);
        if (--open_begins < 0) {
            atomic_fetch_add(&set->unmatched, 1);
            open_begins = 0;
        }
        if (outputs_wanted)
            note_outputs();
    }
}

static void slow(const dlmonitor_event *event, void *user) {
    counts *set = user;
    if (event->kind != DLMONITOR_OPERATOR_BEGIN)
        return;
    atomic_fetch_add(&set->running, 1);
    struct timespec time = {0, 20000000};
    nanosleep(&time, NULL);
    atomic_fetch_sub(&set->running, 1);
}

int init(void) { return (int)dlmonitor_init(); }
int register_set(int set) { return (int)dlmonitor_callback_register(DLMONITOR_FRAMEWORK, on_event, &sets[set]); }
int unregister_set(int set) { return (int)dlmonitor_callback_unregister(DLMONITOR_FRAMEWORK, on_event, &sets[set]); }
int register_slow(int set) { return (int)dlmonitor_callback_register(DLMONITOR_FRAMEWORK, slow, &sets[set]); }
int unregister_slow(int set) { return (int)dlmonitor_callback_unregister(DLMONITOR_FRAMEWORK, slow, &sets[set]); }
int enable_outputs(void) { return (int)dlmonitor_outputs_enable(); }
void finalize(void) { dlmonitor_finalize(); }
void want(int paths, int outputs) {
    paths_wanted = paths;
    outputs_wanted = outputs;
}
long begins(int set) { return sets[set].begins; }
long ends(int set) { return sets[set].ends; }
long spans(int set) { return sets[set].spans; }
long unmatched(int set) { return sets[set].unmatched; }
long running(int set) { return sets[set].running; }
const char *last_path(void) { return path; }
const char *last_outputs(void) { return results; }
void forget_begins(void) { open_begins = 0; }

/* As a library of LD_PRELOAD: starts before the interpreter does. */
static void say(void) { printf("%ld operators of the preloaded tool\n", (long)sets[0].begins); }

__attribute__((constructor)) static void preloaded(void) {
    if (!getenv("TOOL_PRELOADED"))
        return;
    register_set(0);
    if (init() == DLMONITOR_UNAVAILABLE)
        atexit(say);
}
